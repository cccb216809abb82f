//! A bucket is several tensors that are reduced as one: what `in/<k>` read, laid end to end, and `out/<k>` are the parts of its mean.

use super::super::graph::{NodeId, Tensor};
use super::super::names::number;
use super::super::report::ViolationKind;
use super::expected::{Expected, kind};
use super::form::{Former, PREFIX};
use crate::dtype::DataType;
use crate::proto::tensorflow::attr_value::Value;

impl Former<'_, '_> {
    /// All of `in/0`, `in/1`, … in this order.
    pub(super) fn joined(&mut self, node: NodeId, scope: &str) {
        let count = self.graph.data(node).len().saturating_sub(1);
        let attrs = vec![("N", Value::I(count as i64)), ("Tidx", kind(DataType::INT32))];
        self.is(node, &Expected { op: "ConcatV2", attrs, free: &["T"] });
        let mut expected: Vec<Option<Tensor>> =
            (0..count).map(|k| self.output(&format!("{PREFIX}{scope}/in/{k}"))).collect();
        expected.push(self.output(&format!("{PREFIX}{scope}/axis")));
        self.reads(node, &expected);
        let axis = self.named(&format!("{PREFIX}{scope}/axis")).and_then(|axis| self.constant(axis));
        let sizes = self.named(&format!("{PREFIX}{scope}/sizes")).and_then(|sizes| self.constant(sizes));
        if axis != Some(vec![0]) || sizes.is_none_or(|sizes| sizes.len() != count) {
            self.wrong(node, ViolationKind::AddedInputs, "axis 0, and as many sizes as there are tensors");
        }
    }

    /// A part of a mean has the size and the shape of the tensor that it is of.
    pub(super) fn part(&mut self, node: NodeId, scope: &str, k: &str) {
        let under = |what: &str| format!("{PREFIX}{scope}/{what}");
        self.is(
            node,
            &Expected { op: "Reshape", attrs: vec![("Tshape", kind(DataType::INT64))], free: &["T"] },
        );
        let Some(k) = number(k) else {
            return self.wrong(node, ViolationKind::AddedName, "lms/parallel/<number>/out/<number>");
        };
        let part = self.named(&under("split")).map(|node| Tensor { node, output: k });
        if !self.reads(node, &[part, self.output(&under(&format!("shape/{k}")))]) {
            return;
        }
        let source = self.named(&under(&format!("in/{k}"))).and_then(|own| self.source(own));
        let shape = self.named(&under(&format!("shape/{k}"))).and_then(|shape| self.constant(shape));
        let sizes = self.named(&under("sizes")).and_then(|sizes| self.constant(sizes));
        let (Some(source), Some(shape), Some(sizes)) = (source, shape, sizes) else {
            return self.wrong(node, ViolationKind::AddedInputs, "a part of known size");
        };
        let count =
            shape.iter().try_fold(1i64, |product, &size| product.checked_mul(size).filter(|_| size >= 0));
        let known = self.declared_shape(source);
        if count.is_none()
            || sizes.get(k as usize) != count.as_ref()
            || known.is_some_and(|known| known != shape)
        {
            return self.wrong(
                node,
                ViolationKind::AddedInputs,
                "the size and the shape of the tensor that it is of",
            );
        }
        self.formed.reduced.insert(Self::first_output(node), source);
    }

    /// The shape that the file gives a tensor, if it does in full.
    fn declared_shape(&self, tensor: Tensor) -> Option<Vec<i64>> {
        match self.graph.nodes.attr(tensor.node as usize, "_output_shapes")?.value? {
            Value::List(list) => {
                let shape = list.shape.into_iter().nth(tensor.output as usize)?;
                let sizes: Vec<i64> = shape.dim.iter().map(|dim| dim.size).collect();
                (!shape.unknown_rank && sizes.iter().all(|&size| size >= 0)).then_some(sizes)
            }
            _ => None,
        }
    }
}
