//! The kernels that TensorFlow's CUDA build has for nodes on a GPU.

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

    fn accepts(&'static self, attrs: &mut Known<'_, '_>) -> bool {
        self.def.constraint.iter().all(|constraint| is_met(constraint, attrs.get(&constraint.name)))
    }
}

/// The attributes of one node that kernels have asked for. Most kernels of an op ask for the same, and to find one takes a walk through the
/// node's bytes.
struct Known<'f, 'a> {
    find: &'f dyn Fn(&str) -> Option<Attr<'a>>,
    found: Vec<(&'static str, Option<Attr<'a>>)>,
}

impl<'a> Known<'_, 'a> {
    fn get(&mut self, name: &'static str) -> Option<&Attr<'a>> {
        let place = self.found.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
            self.found.push((name, (self.find)(name)));
            self.found.len() - 1
        });
        self.found[place].1.as_ref()
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
    let mut attrs = Known { find: attr, found: Vec::new() };
    kernels()
        .get(op)?
        .iter()
        .map(Lazy::get::<KernelDef>)
        .filter(|kernel| kernel.def.label.as_bytes() == label && kernel.accepts(&mut attrs))
        .max_by_key(|kernel| (kernel.is_specific(), kernel.def.priority))
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
fn kernels() -> &'static HashMap<String, Vec<Lazy<GpuKernel>>> {
    static KERNELS: OnceLock<HashMap<String, Vec<Lazy<GpuKernel>>>> = OnceLock::new();
    KERNELS.get_or_init(|| {
        let mut kernels: HashMap<_, Vec<_>> = HashMap::new();
        for (op, kernel) in table::entries(include_bytes!("gpu_kernels.pb")) {
            kernels.entry(op).or_default().push(kernel);
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
            for kernel in kernels.iter().map(Lazy::get::<KernelDef>) {
                assert!(kernel.def.host_memory_arg.iter().all(|arg| args.contains(&arg)), "{op}");
                assert!(["GPU", "DEFAULT"].contains(&kernel.def.device_type.as_str()), "{op}");
            }
        }
    }
}
