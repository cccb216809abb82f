//! `TF_InitKernel`: which kernels there are, and how each is run.

use super::{eager, native};
use crate::capi::{api, take_buffer};
use crate::device;
use crate::proto::{ArgDef, KernelDef, KernelList, OpDef, OpList};
use crate::status::{Fault, Status, guard_or};
use prost::Message;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::sync::OnceLock;

/// The kernels that TensorFlow's CUDA build has for a GPU, and those for any device: ops, types, host-memory arguments. The
/// table is the one that the analysis of graphs reads; `scripts/make_op_tables.py` makes it.
static TABLE: &[u8] = include_bytes!("../../../src/ops/gpu_kernels.pb");

/// The kernels of the table that are a GPU's own. TensorFlow has those for any device without us.
fn gpu_kernels() -> Result<impl Iterator<Item = KernelDef>, Fault> {
    Ok(decode(TABLE)?.into_iter().filter(|kernel| kernel.device_type == "GPU"))
}

/// The ops on optionals that a GPU has kernels for: branches keep in them what their gradients need.
const OPTIONALS: [&str; 4] = ["OptionalFromValue", "OptionalGetValue", "OptionalHasValue", "OptionalNone"];

/// `DataType`s that are not plain bytes.
const STRING: i32 = 7;
const RESOURCE: i32 = 20;
const VARIANT: i32 = 21;

/// The ops that TensorFlow knows, by name.
pub fn ops() -> &'static HashMap<String, OpDef> {
    static OPS: OnceLock<HashMap<String, OpDef>> = OnceLock::new();
    OPS.get_or_init(|| {
        // SAFETY: the buffer is ours to delete.
        let bytes = unsafe { take_buffer((api().get_all_op_list)()) };
        let list = OpList::decode(&bytes[..]).unwrap_or_default();
        list.op.into_iter().map(|op| (op.name.clone(), op)).collect()
    })
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Eager,
    Native,
}

/// How to run a kernel for this op; `None` where the CPU's cannot stand in for the GPU's.
fn kind(op: &OpDef, kernel: &KernelDef) -> Option<Kind> {
    let is_object = |dtype: i32| dtype == STRING || dtype == VARIANT;
    let state = |arg: &ArgDef| arg.is_ref || arg.dtype == RESOURCE;
    // What is done with a list of tensors is done with each of its tensors, which lie in device memory: the CPU's kernel makes the new
    // ones there too. (The ops that make and change lists have kernels for any device.)
    let of_variants = kernel.constraint.iter().any(|constraint| constraint.types() == [VARIANT]);
    if of_variants && matches!(op.name.as_str(), "AddN" | "ZerosLike") {
        return Some(Kind::Native);
    }
    // A list that is taken off a list of lists, and what is put into an optional or comes out of it, is handed on as it lies in memory.
    if of_variants && op.name == "TensorListPopBack" || OPTIONALS.contains(&op.name.as_str()) {
        return Some(Kind::Native);
    }
    // Strings and variants do not survive a copy of their bytes; functions would run in the wrong place.
    if op.input_arg.iter().chain(&op.output_arg).any(|arg| is_object(arg.dtype))
        || kernel.constraint.iter().flat_map(|c| c.types()).any(|&t| is_object(t) || t == RESOURCE)
        || op.attr.iter().any(|attr| attr.kind == "func" || attr.kind == "list(func)")
    {
        return None;
    }
    // Handles of tensor arrays are made on the device that runs the op. Those of variables need no kernel of ours.
    if op.output_arg.iter().any(|arg| arg.dtype == RESOURCE) && !op.name.starts_with("TensorArray") {
        return None;
    }
    if op.is_stateful || op.input_arg.iter().chain(&op.output_arg).any(state) {
        return Some(Kind::Native);
    }
    Some(Kind::Eager)
}

/// An op, a label and types.
type Key = (String, String, BTreeSet<(String, Vec<i32>)>);

/// What two kernels may not have in common.
fn key(kernel: &KernelDef) -> Key {
    let types = kernel.constraint.iter().map(|c| (c.name.clone(), c.types().to_vec())).collect();
    (kernel.op.clone(), kernel.label.clone(), types)
}

/// Which kernels the device has without us.
#[derive(Default)]
struct Taken {
    own: HashSet<Key>,
    /// Of those for any device, which arguments lie in host memory. TensorFlow takes one only if the device has none of its own.
    of_any_device: HashMap<Key, BTreeSet<String>>,
}

impl Taken {
    /// Whether the device has a kernel that keeps all arguments in the same memory as this one. `Unique` is in a GPU's memory there, and
    /// in the host's with the kernel for any device.
    fn has(&self, kernel: &KernelDef) -> bool {
        let key = key(kernel);
        self.own.contains(&key) || self.of_any_device.get(&key).is_some_and(|args| *args == on_host(kernel))
    }
}

/// The arguments that a kernel has in host memory.
fn on_host(kernel: &KernelDef) -> BTreeSet<String> {
    kernel.host_memory_arg.iter().cloned().collect()
}

fn decode(bytes: &[u8]) -> Result<Vec<KernelDef>, Fault> {
    let list = KernelList::decode(bytes);
    list.map(|list| list.kernel).map_err(|e| Fault::new(format!("softgpu: list of kernels: {e}")))
}

/// Registers one kernel. `false` if TensorFlow has no name for one of its types in the C API.
fn register(device_type: &CStr, kernel: &KernelDef, kind: Kind) -> Result<bool, Fault> {
    let c_string = |text: &str| CString::new(text).map_err(|e| Fault::new(e.to_string()));
    let op = c_string(&kernel.op)?;
    let status = Status::new();
    // SAFETY: every string outlives its call and TensorFlow copies it; the functions have the types that the header
    // wants; the builder goes to TensorFlow with its registration, or is deleted.
    unsafe {
        let (create, run, delete) = match kind {
            Kind::Eager => (eager::create as _, eager::run as _, eager::delete as _),
            Kind::Native => (native::create as _, native::run as _, native::delete as _),
        };
        let builder = (api().new_kernel_builder)(op.as_ptr(), device_type.as_ptr(), create, run, delete);
        for constraint in &kernel.constraint {
            let attr = c_string(&constraint.name)?;
            for &dtype in constraint.types() {
                (api().type_constraint)(builder, attr.as_ptr(), dtype, status.as_ptr());
                if !status.is_ok() {
                    (api().delete_kernel_builder)(builder);
                    return Ok(false);
                }
            }
        }
        for arg in &kernel.host_memory_arg {
            (api().host_memory)(builder, c_string(arg)?.as_ptr());
        }
        let name = c_string(&format!("SoftGpu{}", kernel.op))?;
        (api().register_kernel_builder)(name.as_ptr(), builder, status.as_ptr());
    }
    if status.is_ok() { Ok(true) } else { Err(Fault::new(format!("softgpu: {}", status.message()))) }
}

/// TensorFlow's entry point for kernels.
#[unsafe(no_mangle)]
pub extern "C" fn TF_InitKernel() {
    guard_or((), || {
        let Some(machine) = device::machine() else { return Ok(()) };
        let device_type = &machine.settings.device_type;
        let status = Status::new();
        // SAFETY: the buffer is ours to delete.
        let registered = decode(&unsafe {
            let buffer = (api().get_all_registered_kernels)(status.as_ptr());
            take_buffer(buffer)
        })?;
        let (mut taken, mut on_cpu) = (Taken::default(), HashSet::new());
        for kernel in &registered {
            let device = kernel.device_type.as_bytes();
            if device == device_type.to_bytes() {
                taken.own.insert(key(kernel));
            } else if device == b"DEFAULT" {
                taken.of_any_device.insert(key(kernel), on_host(kernel));
            } else if device == b"CPU" {
                on_cpu.insert(kernel.op.as_str());
            }
        }
        let (mut eager, mut native, mut unnamed) = (0, 0, 0);
        for kernel in gpu_kernels()? {
            let Some(op) = ops().get(&kernel.op) else { continue };
            // A label asks for one of several kernels for the same op and types; the CPU's have no such choice.
            if !kernel.label.is_empty() || !on_cpu.contains(kernel.op.as_str()) || taken.has(&kernel) {
                continue;
            }
            let Some(kind) = kind(op, &kernel) else { continue };
            if !register(device_type, &kernel, kind)? {
                unnamed += 1;
                continue;
            }
            match kind {
                Kind::Eager => eager += 1,
                Kind::Native => native += 1,
            }
            taken.own.insert(key(&kernel));
        }
        if machine.settings.verbose {
            let device_type = device_type.to_string_lossy();
            eprintln!(
                "softgpu: registered {} kernels for {device_type}, {native} of them native",
                eager + native
            );
            eprintln!("softgpu: left out {unnamed} kernels of types that the C API does not name");
        }
        Ok(())
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{AttrValue, Constraint, ListValue};

    fn op(name: &str, inputs: &[(i32, bool)], stateful: bool) -> OpDef {
        let input_arg = inputs.iter().map(|&(dtype, is_ref)| ArgDef { dtype, is_ref }).collect();
        OpDef { name: name.into(), input_arg, is_stateful: stateful, ..OpDef::default() }
    }

    fn of_type(name: &str, dtype: i32) -> Constraint {
        let list = Some(ListValue { types: vec![dtype], ..ListValue::default() });
        let allowed_values = Some(AttrValue { list, ..AttrValue::default() });
        Constraint { name: name.into(), allowed_values }
    }

    #[test]
    fn the_table_is_whole() {
        let kernels: Vec<KernelDef> = gpu_kernels().unwrap().collect();
        assert!(kernels.len() > 5000, "{}", kernels.len());
        assert!(kernels.iter().all(|k| !k.op.is_empty()));
        let has = |name: &str| kernels.iter().any(|k| k.op == name);
        for name in
            ["Conv2D", "Conv3DBackpropFilterV2", "ResourceApplyAdam", "ApplyMomentum", "TensorArrayV3"]
        {
            assert!(has(name), "{name}");
        }
    }

    #[test]
    fn a_kernel_for_any_device_is_replaced_if_it_keeps_arguments_elsewhere() {
        let of = |op: &str, on_host: &[&str]| KernelDef {
            op: op.into(),
            host_memory_arg: on_host.iter().map(|arg| arg.to_string()).collect(),
            ..KernelDef::default()
        };
        let mut taken = Taken::default();
        for kernel in [of("Unique", &["x", "y", "idx"]), of("Shape", &["output"]), of("Identity", &[])] {
            taken.of_any_device.insert(key(&kernel), on_host(&kernel));
        }
        taken.own.insert(key(&of("Stack", &[])));
        assert!(!taken.has(&of("Unique", &[])));
        assert!(taken.has(&of("Shape", &["output"])));
        assert!(taken.has(&of("Identity", &[])));
        assert!(taken.has(&of("Stack", &["handle"])), "two of a device's own may not be told apart by that");
        assert!(!taken.has(&of("Relu", &[])));
    }

    #[test]
    fn state_is_native_and_objects_stay_on_the_host() {
        let kernel = KernelDef::default();
        assert_eq!(kind(&op("Relu", &[(0, false)], false), &kernel), Some(Kind::Eager));
        assert_eq!(kind(&op("RandomUniform", &[(0, false)], true), &kernel), Some(Kind::Native));
        assert_eq!(kind(&op("ApplyAdam", &[(0, true)], false), &kernel), Some(Kind::Native));
        assert_eq!(kind(&op("AssignVariableOp", &[(RESOURCE, false)], true), &kernel), Some(Kind::Native));
        assert_eq!(kind(&op("TensorListPushBack", &[(VARIANT, false)], false), &kernel), None);
        let of_variants = KernelDef { constraint: vec![of_type("T", VARIANT)], ..KernelDef::default() };
        assert_eq!(kind(&op("AddN", &[(0, false)], false), &of_variants), Some(Kind::Native));
        assert_eq!(kind(&op("Identity", &[(0, false)], false), &of_variants), None);
        assert_eq!(kind(&op("StringJoin", &[(STRING, false)], false), &kernel), None);
    }
}
