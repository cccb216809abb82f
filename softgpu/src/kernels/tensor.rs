//! Tensors of the C API that are ours to delete.

use crate::abi::Ptr;
use crate::capi::api;
use crate::status::{Fault, Status};
use std::ffi::c_int;
use std::ops::Range;

/// A `TF_Tensor`.
pub struct Tensor(Ptr);

impl Tensor {
    /// # Safety
    ///
    /// `tensor` is a `TF_Tensor` that the caller owns.
    pub unsafe fn own(tensor: Ptr) -> Tensor {
        Tensor(tensor)
    }

    /// A new tensor in host memory.
    pub fn new(dtype: c_int, dims: &[i64], bytes: usize) -> Result<Tensor, Fault> {
        // SAFETY: the dimensions are `dims.len()` values; the result is owned.
        let tensor = unsafe { (api().allocate_tensor)(dtype, dims.as_ptr(), dims.len() as c_int, bytes) };
        if tensor.is_null() {
            return Err(Fault::new(format!("softgpu: no host memory for {bytes} bytes")));
        }
        Ok(Tensor(tensor))
    }

    pub fn as_ptr(&self) -> Ptr {
        self.0
    }

    pub fn dtype(&self) -> c_int {
        // SAFETY: owned, so valid.
        unsafe { (api().tensor_type)(self.0) }
    }

    pub fn bytes(&self) -> usize {
        // SAFETY: the same.
        unsafe { (api().tensor_byte_size)(self.0) }
    }

    pub fn dims(&self) -> Vec<i64> {
        // SAFETY: the same; the index is within the number of dimensions.
        unsafe { (0..(api().num_dims)(self.0)).map(|d| (api().dim)(self.0, d)).collect() }
    }

    pub fn data(&self) -> *mut u8 {
        // SAFETY: the same.
        unsafe { (api().tensor_data)(self.0).cast() }
    }

    /// The addresses of its content.
    pub fn span(&self) -> Range<usize> {
        let start = self.data() as usize;
        start..start + self.bytes()
    }

    /// A tensor of a type that is plain bytes.
    pub fn content(&self) -> &[u8] {
        match (self.data(), self.bytes()) {
            (data, bytes) if data.is_null() || bytes == 0 => &[],
            // SAFETY: the data is `bytes` long and lives as long as the tensor.
            (data, bytes) => unsafe { std::slice::from_raw_parts(data, bytes) },
        }
    }

    /// The same, to write. Only for a tensor that nobody else reads yet: a new one, or an output.
    pub fn content_mut(&mut self) -> &mut [u8] {
        match (self.data(), self.bytes()) {
            (data, bytes) if data.is_null() || bytes == 0 => &mut [],
            // SAFETY: as above, and borrowed exclusively.
            (data, bytes) => unsafe { std::slice::from_raw_parts_mut(data, bytes) },
        }
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: owned, deleted once.
            unsafe { (api().delete_tensor)(self.0) }
        }
    }
}

/// A `TFE_TensorHandle`.
pub struct Handle(Ptr);

impl Handle {
    /// # Safety
    ///
    /// `handle` is null or a `TFE_TensorHandle` that the caller owns.
    pub unsafe fn own(handle: Ptr) -> Handle {
        Handle(handle)
    }

    /// Shares the tensor's memory.
    pub fn new(tensor: &Tensor, status: &Status) -> Handle {
        // SAFETY: both are valid.
        Handle(unsafe { (api().new_tensor_handle)(tensor.as_ptr(), status.as_ptr()) })
    }

    pub fn as_ptr(&self) -> Ptr {
        self.0
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: owned, deleted once.
            unsafe { (api().delete_tensor_handle)(self.0) }
        }
    }
}
