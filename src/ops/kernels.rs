//! The kernels that TensorFlow's CUDA build has for nodes on a GPU.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::OnceLock;

use super::attr::Attr;
use super::table::{self, Lazy};
use crate::dtype::DataType;
use crate::proto::tensorflow::KernelDef;
use crate::proto::tensorflow::attr_value::Value;
use crate::proto::tensorflow::kernel_def::AttrConstraint;

/// The attribute by which a node asks for a kernel of a certain label.
const LABEL_ATTR: &str = "_kernel";

/// One kernel of an op on a GPU.
#[derive(Debug)]
pub struct GpuKernel {
    def: KernelDef,
}

impl From<KernelDef> for GpuKernel {
    fn from(def: KernelDef) -> Self {
        Self { def }
    }
}

impl GpuKernel {
    /// Whether the tensors of an input or output argument lie in host memory.
    pub fn host_memory_arg(&self, arg: &str) -> bool {
        self.def.host_memory_arg.iter().any(|name| name == arg)
    }

    /// The definition, as TensorFlow registers it.
    pub fn def(&self) -> &KernelDef {
        &self.def
    }

    /// Whether it is made for GPUs, rather than for any device that has no kernel of its own.
    fn is_specific(&self) -> bool {
        self.def.device_type == "GPU"
    }

    /// Whether it has this label. Most have none, and comparing nothing with nothing takes the processor longer than all else here: where
    /// empty slices point is no memory.
    fn is_labelled(&self, label: &[u8]) -> bool {
        let own = self.def.label.as_bytes();
        own.len() == label.len() && (own.is_empty() || own == label)
    }

    /// Whether it needs any input or gives any output in host memory.
    pub fn uses_host_memory(&self) -> bool {
        !self.def.host_memory_arg.is_empty()
    }
}

/// The kernels of one op.
#[derive(Debug, Default)]
struct OfOp {
    table: Vec<Lazy<GpuKernel>>,
    sorted: OnceLock<Sorted>,
}

/// The kernels of one op in the order in which TensorFlow would rather have them, and the attributes by which they are told apart, each
/// once: to find one takes a walk through the node's bytes.
#[derive(Debug)]
struct Sorted {
    attrs: Vec<&'static str>,
    candidates: Vec<Candidate>,
}

#[derive(Debug)]
struct Candidate {
    kernel: &'static GpuKernel,
    /// What is asked of which of the attributes.
    constraints: Vec<(usize, &'static AttrConstraint)>,
}

impl OfOp {
    fn sorted(&'static self) -> &'static Sorted {
        self.sorted.get_or_init(|| Sorted::new(self.table.iter().map(Lazy::get::<KernelDef>)))
    }
}

impl Sorted {
    fn new(kernels: impl DoubleEndedIterator<Item = &'static GpuKernel>) -> Sorted {
        // Of equals the last one of the table counts.
        let mut kernels: Vec<&'static GpuKernel> = kernels.rev().collect();
        kernels.sort_by_key(|kernel| Reverse((kernel.is_specific(), kernel.def.priority)));
        let mut attrs: Vec<&'static str> = Vec::new();
        let mut place_of = |name: &'static str| {
            attrs.iter().position(|known| *known == name).unwrap_or_else(|| {
                attrs.push(name);
                attrs.len() - 1
            })
        };
        let candidate = |kernel: &'static GpuKernel| {
            let constraints = kernel.def.constraint.iter();
            let constraints =
                constraints.map(|constraint| (place_of(&constraint.name), constraint)).collect();
            Candidate { kernel, constraints }
        };
        let candidates = kernels.into_iter().map(candidate).collect();
        Sorted { attrs, candidates }
    }

    fn find<'a>(&self, label: &[u8], attr: &dyn Fn(&str) -> Option<Attr<'a>>) -> Option<&'static GpuKernel> {
        let mut known: Vec<Option<Option<Attr<'a>>>> = vec![None; self.attrs.len()];
        let found = self.candidates.iter().find(|candidate| {
            candidate.kernel.is_labelled(label)
                && candidate.constraints.iter().all(|&(place, constraint)| {
                    let value = known[place].get_or_insert_with(|| attr(self.attrs[place]));
                    is_met(constraint, value.as_ref())
                })
        });
        found.map(|candidate| candidate.kernel)
    }
}

/// The kernel that TensorFlow would take for a node of this op: the label must be the node's, all
/// constraints must be met, a kernel for GPUs goes before one for any device, then the highest
/// priority counts. `attr` finds the node's attributes, defaults included.
pub(super) fn find<'a>(op: &str, attr: &dyn Fn(&str) -> Option<Attr<'a>>) -> Option<&'static GpuKernel> {
    let label = match attr(LABEL_ATTR) {
        Some(Attr::Str(label)) => label,
        _ => b"",
    };
    kernels().get(op)?.sorted().find(label, attr)
}

/// Whether an attribute has one of the allowed values; of a list of types, each must be allowed.
fn is_met(constraint: &AttrConstraint, attr: Option<&Attr<'_>>) -> bool {
    let Some(Value::List(allowed)) =
        constraint.allowed_values.as_ref().and_then(|values| values.value.as_ref())
    else {
        return false;
    };
    let is_allowed = |dtype: &DataType| allowed.r#type.contains(&dtype.number());
    match attr {
        Some(Attr::Type(dtype)) => is_allowed(dtype),
        Some(Attr::Types(dtypes)) => dtypes.iter().all(is_allowed),
        Some(Attr::Str(value)) => allowed.s.iter().any(|allowed| allowed == value),
        Some(Attr::Int(value)) => allowed.i.contains(value),
        Some(Attr::Bool(value)) => allowed.b.contains(value),
        Some(Attr::Other) | None => false,
    }
}

/// The kernels of each op.
fn kernels() -> &'static HashMap<String, OfOp> {
    static KERNELS: OnceLock<HashMap<String, OfOp>> = OnceLock::new();
    KERNELS.get_or_init(|| {
        let mut kernels: HashMap<String, OfOp> = HashMap::new();
        for (op, kernel) in table::entries(include_bytes!("gpu_kernels.pb")) {
            kernels.entry(op).or_default().table.push(kernel);
        }
        kernels
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::OpRegistry;

    #[test]
    fn every_kernel_is_one_of_a_known_op_and_of_its_arguments() {
        for (op, kernels) in kernels() {
            let info = OpRegistry::builtin().get(op).unwrap_or_else(|| panic!("{op} is not known"));
            let args: Vec<_> = info.inputs().iter().chain(info.outputs()).map(|arg| &arg.name).collect();
            for kernel in kernels.table.iter().map(Lazy::get::<KernelDef>) {
                assert!(kernel.def.host_memory_arg.iter().all(|arg| args.contains(&arg)), "{op}");
                assert!(["GPU", "DEFAULT"].contains(&kernel.def.device_type.as_str()), "{op}");
            }
        }
    }
}
