//! The bytes that an op reads and writes.

use super::operands::Operands;
use crate::dtype::DataType;
use crate::graph::TensorId;
use crate::ops::{Attr, AttrLookup, OpInfo, Traffic, WorkKind};

/// The bytes that a node of this kind reads and writes; none if a size is unknown.
///
/// An input that is read under two slots counts once: the caches hold it.
pub(super) fn bytes(kind: WorkKind, operands: &Operands) -> Option<f64> {
    let traffic = match kind {
        WorkKind::Free => return Some(0.0),
        WorkKind::Update => update(operands.graph.op(operands.node)),
        WorkKind::Memory(traffic) => traffic,
        _ => Traffic::Everything { again: &[] },
    };
    match traffic {
        Traffic::Everything { again } => everything(operands, again),
        Traffic::BatchNorm => {
            // Training is the op's default.
            let trains = operands.attrs().attr("is_training") != Some(Attr::Bool(false));
            let passes = if trains { 2.0 } else { 1.0 };
            Some(passes * operands.bytes(operands.input(0))? + operands.bytes(operands.output(0))?)
        }
        Traffic::BatchNormGradient => {
            let read = operands.bytes(operands.input(0))? + operands.bytes(operands.input(1))?;
            Some(2.0 * read + operands.bytes(operands.output(0))?)
        }
        Traffic::Outputs => outputs(operands),
        Traffic::Part => Some(2.0 * outputs(operands)?),
        Traffic::Input { input, passes } => Some(f64::from(passes) * operands.bytes(operands.input(input))?),
    }
}

/// What an optimizer's op moves: its gradient, and each variable and slot there and back. These are references or resources, which its
/// definition says.
fn update(op: &OpInfo) -> Traffic {
    let Some(input) = op.inputs().iter().position(|arg| matches!(arg.name.as_str(), "grad" | "delta")) else {
        return Traffic::Everything { again: &[] };
    };
    let is_variable = |dtype| DataType::new(dtype) == DataType::RESOURCE;
    let variables = op.inputs().iter().filter(|arg| arg.is_ref || is_variable(arg.r#type)).count();
    Traffic::Input { input, passes: 2 * variables as u32 + 1 }
}

fn everything(operands: &Operands, again: &[usize]) -> Option<f64> {
    let inputs = operands.graph.data_inputs(operands.node);
    let mut total = outputs(operands)?;
    for (slot, &input) in inputs.iter().enumerate() {
        if !inputs[..slot.min(MOST_COMPARED)].contains(&input) {
            total += tensor(operands, input)?;
        }
    }
    for &input in again {
        total += operands.bytes(operands.input(input))?;
    }
    Some(total)
}

/// How many earlier inputs an input is compared with, so that an op of very many inputs takes no quadratic time.
const MOST_COMPARED: usize = 16;

fn outputs(operands: &Operands) -> Option<f64> {
    operands.graph.outputs(operands.node).map(|output| tensor(operands, output)).sum()
}

/// The bytes of a tensor. Handles and strings, which have no size, are not the device's to move.
fn tensor(operands: &Operands, tensor: TensorId) -> Option<f64> {
    let dtype: DataType = operands.graph.output_type(tensor).dtype;
    match dtype.size_in_bytes() {
        None => Some(0.0),
        Some(_) => operands.bytes(Some(tensor)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::OpRegistry;

    #[test]
    fn adam_moves_its_variable_and_two_slots() {
        let adam = OpRegistry::builtin().get("ResourceApplyAdam").expect("an op of TensorFlow");
        assert_eq!(update(adam), Traffic::Input { input: 9, passes: 7 });
    }
}
