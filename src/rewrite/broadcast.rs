//! Giving all workers the variables of worker 0.

use std::collections::BTreeMap;

use super::error::RewriteError;
use super::parallel::{Adder, Attrs, kind};
use crate::dtype::DataType;
use crate::plan::{BARRIER, BROADCAST, RANK, WORKERS};
use crate::proto::tensorflow::attr_value::Value;

impl Adder<'_> {
    /// Gives all workers what worker 0 has: the sum of its bits and of zeros, so that not even the sign of a zero gets lost.
    pub(super) fn broadcast(&mut self, variables: &[String]) -> Result<(), RewriteError> {
        let zero = self.ints("lms/parallel/zero", &[0], false, DataType::INT32);
        let attrs = vec![("T", kind(DataType::INT32)), ("incompatible_shape_error", Value::B(true))];
        let is_first = self.on_host("lms/parallel/is_first", "Equal", vec![RANK.to_string(), zero], attrs);
        let mut ones: BTreeMap<i32, String> = BTreeMap::new();
        for (dtype, name) in
            [(DataType::INT32, "lms/parallel/one"), (DataType::INT64, "lms/parallel/one_long")]
        {
            let attrs = cast(DataType::BOOL, dtype);
            ones.insert(dtype.number(), self.on_host(name, "Cast", vec![is_first.clone()], attrs));
        }
        let (mut all, mut after) = (Vec::new(), Vec::new());
        for (number, variable) in variables.iter().enumerate() {
            let no_variable = || RewriteError::NoSuchNode { name: variable.clone(), role: "a variable" };
            let node = self.by_name.node(variable).ok_or_else(no_variable)?;
            let is_ref = self.graph.op(node).name() != "VarHandleOp";
            let device = self.nodes.device(node.index()).to_string();
            let dtype = crate::parallel::variable_type(self.graph, node).ok_or_else(no_variable)?;
            let scope = format!("{BROADCAST}/{number}");
            let read = match is_ref {
                true => ("Identity", vec![("T", kind(dtype))]),
                false => ("ReadVariableOp", vec![("dtype", kind(dtype))]),
            };
            let mut inputs = vec![variable.clone()];
            inputs.append(&mut after);
            let mut at = self.node(&format!("{scope}/read"), read.0, &device, inputs, read.1);
            let (there, back, whole) = bits(dtype);
            for (step, &(op, from, to)) in there.iter().enumerate() {
                let attrs = conversion(op, from, to);
                at = self.on_host(&format!("{scope}/to/{step}"), op, vec![at], attrs);
            }
            let inputs = vec![at, ones[&whole.number()].clone()];
            at = self.on_host(&format!("{scope}/own"), "Mul", inputs, vec![("T", kind(whole))]);
            let name = format!("{scope}/sum");
            let host = self.host;
            at = self.collective(&name, "CollectiveReduceV2", host, &at, Vec::new(), whole, Some("Id"));
            for (step, &(op, from, to)) in back.iter().enumerate() {
                let attrs = conversion(op, from, to);
                at = self.on_host(&format!("{scope}/from/{step}"), op, vec![at], attrs);
            }
            let assign = match is_ref {
                true => (
                    "Assign",
                    vec![
                        ("T", kind(dtype)),
                        ("use_locking", Value::B(true)),
                        ("validate_shape", Value::B(true)),
                    ],
                ),
                false => {
                    ("AssignVariableOp", vec![("dtype", kind(dtype)), ("validate_shape", Value::B(false))])
                }
            };
            let name = self.node(
                &format!("{scope}/assign"),
                assign.0,
                &device,
                vec![variable.clone(), at],
                assign.1,
            );
            after = vec![format!("^{name}")];
            all.push(format!("^{name}"));
        }
        self.on_host(BROADCAST, "NoOp", all, Vec::new());
        self.collective(
            BARRIER,
            "CollectiveReduceV2",
            self.host,
            WORKERS,
            Vec::new(),
            DataType::INT32,
            Some("Id"),
        );
        Ok(())
    }
}

/// A conversion's op, and from what to what it leads.
type Conversion = (&'static str, DataType, DataType);

/// How a type becomes whole numbers and back, and which.
fn bits(dtype: DataType) -> (Vec<Conversion>, Vec<Conversion>, DataType) {
    let (short, long) = (DataType::INT32, DataType::INT64);
    let (float, bitcast, cast) = (DataType::FLOAT, "Bitcast", "Cast");
    match dtype {
        DataType::INT32 => (vec![], vec![], short),
        DataType::INT64 => (vec![], vec![], long),
        DataType::FLOAT | DataType::UINT32 => {
            (vec![(bitcast, dtype, short)], vec![(bitcast, short, dtype)], short)
        }
        DataType::DOUBLE | DataType::UINT64 => {
            (vec![(bitcast, dtype, long)], vec![(bitcast, long, dtype)], long)
        }
        DataType::HALF | DataType::BFLOAT16 => (
            vec![(cast, dtype, float), (bitcast, float, short)],
            vec![(bitcast, short, float), (cast, float, dtype)],
            short,
        ),
        _ => (vec![(cast, dtype, short)], vec![(cast, short, dtype)], short),
    }
}

fn conversion(op: &str, from: DataType, to: DataType) -> Attrs<'static> {
    if op == "Bitcast" { vec![("T", kind(from)), ("type", kind(to))] } else { cast(from, to) }
}

fn cast(from: DataType, to: DataType) -> Attrs<'static> {
    vec![("SrcT", kind(from)), ("DstT", kind(to)), ("Truncate", Value::B(false))]
}
