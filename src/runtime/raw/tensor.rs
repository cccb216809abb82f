//! Tensors on the way to TensorFlow and back.

use std::alloc::{self, Layout};
use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};

use tensorflow_sys_runtime as sys;

use super::super::tensor::{Tensor, TensorError, Values};
use super::{Functions, slice};
use crate::dtype::DataType;

/// A tensor in TensorFlow's memory.
#[derive(Debug)]
pub(in crate::runtime) struct RawTensor {
    pub(super) pointer: NonNull<sys::TF_Tensor>,
}

// SAFETY: nothing changes the tensor, and TensorFlow counts its references atomically.
unsafe impl Send for RawTensor {}
// SAFETY: as above.
unsafe impl Sync for RawTensor {}

impl RawTensor {
    /// A copy of a host tensor.
    pub fn of(functions: Functions, tensor: &Tensor) -> Result<RawTensor, TensorError> {
        let pointer = match tensor.values() {
            Values::Plain(bytes) => Self::of_bytes(functions, tensor, bytes),
            Values::Strings(strings) => Self::of_strings(tensor, strings),
            Values::Opaque => return Err(TensorError::NotPlain(tensor.dtype())),
        };
        let no_memory = || TensorError::NoMemory { dtype: tensor.dtype(), shape: tensor.shape().to_vec() };
        Ok(RawTensor { pointer: NonNull::new(pointer).ok_or_else(no_memory)? })
    }

    fn of_bytes(functions: Functions, tensor: &Tensor, bytes: &[u8]) -> *mut sys::TF_Tensor {
        let (shape, dtype) = (tensor.shape(), tensor.dtype().number());
        // SAFETY: the shape is copied, and a host tensor has just the bytes that its type and shape take, so that is the
        // size of the memory behind the data pointer.
        unsafe {
            let pointer =
                (functions.allocate_tensor)(dtype, shape.as_ptr(), shape.len() as c_int, bytes.len());
            if !pointer.is_null() && !bytes.is_empty() {
                let data: *mut u8 = sys::TF_TensorData(pointer).cast();
                ptr::copy_nonoverlapping(bytes.as_ptr(), data, bytes.len());
            }
            pointer
        }
    }

    fn of_strings(tensor: &Tensor, strings: &[Vec<u8>]) -> *mut sys::TF_Tensor {
        let shape = tensor.shape();
        let size = size_of::<sys::TF_TString>() * strings.len();
        let Some(layout) = string_layout(size) else { return ptr::null_mut() };
        // SAFETY: the memory has room for all strings, each of which is initialized before it is assigned. From
        // the last call on it is TensorFlow's, which gives it back to the deallocator with the same size.
        unsafe {
            let data = alloc::alloc(layout).cast::<sys::TF_TString>();
            if data.is_null() {
                return ptr::null_mut();
            }
            for (index, string) in strings.iter().enumerate() {
                let place = data.add(index);
                sys::TF_StringInit(place);
                sys::TF_StringCopy(place, string.as_ptr().cast(), string.len());
            }
            sys::TF_NewTensor(
                sys::TF_DataType::TF_STRING,
                shape.as_ptr(),
                shape.len() as c_int,
                data.cast(),
                size,
                Some(free_strings),
                ptr::null_mut(),
            )
        }
    }

    /// A copy on the host.
    ///
    /// A copy it must be: what is fetched from a ref variable is the variable's own memory, which the next step changes.
    pub(super) fn to_host(&self, functions: Functions) -> Tensor {
        let pointer = self.pointer.as_ptr();
        // SAFETY: the tensor lives, its dimensions are as many as it says, and its data has the size that it says.
        unsafe {
            let dtype = DataType::new((functions.tensor_type)(pointer));
            let shape: Vec<i64> =
                (0..sys::TF_NumDims(pointer)).map(|axis| sys::TF_Dim(pointer, axis)).collect();
            let data = sys::TF_TensorData(pointer).cast_const();
            let size = sys::TF_TensorByteSize(pointer);
            let values = match dtype {
                DataType::STRING => {
                    let strings: &[sys::TF_TString] = slice(data.cast(), size / size_of::<sys::TF_TString>());
                    Values::Strings(strings.iter().map(|string| string_bytes(string)).collect())
                }
                _ if dtype.size_in_bytes().is_some() => {
                    Values::Plain(slice::<u8>(data.cast(), size).to_vec())
                }
                _ => Values::Opaque,
            };
            Tensor::fetched(dtype, shape, values)
        }
    }
}

impl Drop for RawTensor {
    fn drop(&mut self) {
        // SAFETY: our reference is used no more.
        unsafe { sys::TF_DeleteTensor(self.pointer.as_ptr()) }
    }
}

/// The content of a string.
///
/// # Safety
///
/// The string must be initialized.
unsafe fn string_bytes(string: &sys::TF_TString) -> Vec<u8> {
    // SAFETY: an initialized string has as many bytes as it says.
    unsafe {
        slice::<u8>(sys::TF_StringGetDataPointer(string).cast(), sys::TF_StringGetSize(string)).to_vec()
    }
}

/// How the memory of a string tensor is allocated; none for more than memory can be.
fn string_layout(size: usize) -> Option<Layout> {
    // TensorFlow likes its tensors aligned to a cache line. Nothing at all cannot be allocated.
    const ALIGNMENT: usize = 64;
    Layout::from_size_align(size.max(1), ALIGNMENT).ok()
}

/// Frees what `of_strings` allocated.
///
/// # Safety
///
/// `data` must come from there, and `size` must be what was allocated.
unsafe extern "C" fn free_strings(data: *mut c_void, size: usize, _: *mut c_void) {
    let strings = data.cast::<sys::TF_TString>();
    // SAFETY: all strings are initialized, and the memory was allocated with this layout.
    unsafe {
        for index in 0..size / size_of::<sys::TF_TString>() {
            sys::TF_StringDealloc(strings.add(index));
        }
        if let Some(layout) = string_layout(size) {
            alloc::dealloc(data.cast(), layout);
        }
    }
}
