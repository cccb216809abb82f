//! `TF_InitGraph`: keeps Grappler's layout optimizer off, unless it was asked for.
//!
//! It takes any device of type GPU for one that wants channels first, and puts a transposition at both ends of
//! every convolution that the CPU kernels then undo.

use crate::abi::*;
use crate::device;
use crate::status::{guard, required};
use std::ptr::null_mut;

unsafe extern "C" fn free(data: Ptr, length: usize) {
    // SAFETY: `optimize` made the buffer from a boxed slice of this length, and TensorFlow frees it once.
    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(data.cast::<u8>(), length)) });
}

/// A plug-in must bring an optimizer; this one returns the graph as it is.
extern "C" fn optimize(
    _: Ptr,
    graph: Option<&Buffer>,
    _: Ptr,
    out: Option<&mut Buffer>,
    status: Option<&TfStatus>,
) {
    guard(status, || {
        let graph = required(graph, "graph")?;
        let bytes: Box<[u8]> = if graph.length == 0 {
            Box::default()
        } else {
            // SAFETY: TensorFlow's buffer has `length` bytes.
            unsafe { std::slice::from_raw_parts(graph.data, graph.length) }.into()
        };
        let length = bytes.len();
        *required(out, "buffer")? =
            Buffer { data: Box::into_raw(bytes) as *const u8, length, deallocator: Some(free) };
        Ok(())
    });
}

/// TensorFlow's entry point for the graph optimizer.
#[unsafe(no_mangle)]
pub extern "C" fn TF_InitGraph(params: Option<&mut OptimizerRegistrationParams>, status: Option<&TfStatus>) {
    guard(status, || {
        let params = required(params, "optimizer parameters")?;
        params.struct_size = size_of::<OptimizerRegistrationParams>();
        (params.major, params.minor, params.patch) = (0, 0, 1);
        params.device_type = device::device_type().as_ptr();
        let mut toggles = [0; TOGGLES];
        if !device::machine().is_some_and(|machine| machine.settings.layout) {
            toggles[LAYOUT_OPTIMIZER] = TOGGLE_OFF;
        }
        **required(params.configs.as_mut(), "optimizer settings")? =
            OptimizerConfigs { struct_size: OPTIMIZER_CONFIGS_SIZE, ext: null_mut(), toggles };
        **required(params.optimizer.as_mut(), "optimizer")? = Optimizer {
            struct_size: size_of::<Optimizer>(),
            ext: null_mut(),
            create: None,
            optimize,
            destroy: None,
        };
        Ok(())
    });
}
