//! The arithmetic of products other than convolutions.

use super::operands::{Operands, volume};
use super::work::{Arithmetic, Sides, Work};
use crate::ops::Pass;

/// Products of matrices: some at once, some one after another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Products {
    pub flops: f64,
    pub sides: Sides,
    /// How many of them must wait for one another.
    pub sequential: f64,
}

impl Products {
    /// These products, with the memory that they touch.
    pub fn work(self, operands: &Operands, memory: Work) -> Work {
        let arithmetic = Arithmetic::Matrix { dtype: operands.dtype(), sides: self.sides };
        Work { flops: self.flops, arithmetic, kernels: self.sequential, ..memory }
    }
}

/// A convolution of each channel by itself: each value of the feature map is a sum over the filter's height and width.
pub(super) fn depthwise(pass: Pass, operands: &Operands) -> Option<f64> {
    let (feature_map, filter) = match pass {
        Pass::Forward => (operands.output(0), operands.input(1)),
        Pass::InputGradient => (operands.input(2), operands.input(1)),
        Pass::FilterGradient => (operands.input(2), operands.output(0)),
    };
    let window = operands.shape(filter)?.get(..2)?;
    Some(2.0 * volume(operands.shape(feature_map)?) * volume(window))
}

/// A product of two matrices, or of two batches of them.
pub(super) fn matrix_product(transposes: [&str; 2], operands: &Operands) -> Option<Products> {
    let left = operands.shape(operands.input(0))?;
    let output = operands.shape(operands.output(0))?;
    let [.., left_rows, left_columns] = *left else { return None };
    let [.., rows, columns] = *output else { return None };
    let depth = if operands.flag(transposes[0]) { left_rows } else { left_columns } as f64;
    let sides = Sides { rows: rows as f64, columns: columns as f64, depth };
    Some(Products { flops: 2.0 * volume(output) * depth, sides, sequential: 1.0 })
}

/// Sums of products along named dimensions. With one operand there is nothing to multiply.
pub(super) fn einsum(operands: &Operands) -> Option<Products> {
    let attrs = operands.attrs();
    let equation = std::str::from_utf8(attrs.string("equation")?).ok()?;
    let (inputs, output) = equation.split_once("->")?;
    let mut terms = Vec::new();
    for (index, labels) in inputs.split(',').enumerate() {
        terms.push((labels.trim(), operands.shape(operands.input(index))?));
    }
    let mut sizes: Vec<(char, f64)> = Vec::new();
    let mut broadcast: f64 = 1.0;
    for &(labels, shape) in &terms {
        let (before, after) = labels.split_once("...").unwrap_or((labels, ""));
        let (first, last) = (before.chars().count(), after.chars().count());
        let rest = shape.len().checked_sub(first + last)?;
        broadcast = broadcast.max(volume(&shape[first..first + rest]));
        let named = before.chars().zip(shape).chain(after.chars().zip(&shape[first + rest..]));
        for (label, &size) in named {
            if sizes.iter().all(|&(known, _)| known != label) {
                sizes.push((label, size as f64));
            }
        }
    }
    let product = |wanted: &dyn Fn(char) -> bool| -> f64 {
        sizes.iter().filter(|&&(label, _)| wanted(label)).map(|&(_, size)| size).product()
    };
    let all = broadcast * product(&|_| true);
    if terms.len() < 2 {
        let sides = Sides { rows: 1.0, columns: 1.0, depth: 1.0 };
        return Some(Products { flops: all, sides, sequential: 1.0 });
    }
    let (left, right) = (terms[0].0, terms[1].0);
    let sides = Sides {
        rows: product(&|label| output.contains(label) && left.contains(label) && !right.contains(label)),
        columns: product(&|label| output.contains(label) && right.contains(label) && !left.contains(label)),
        depth: product(&|label| !output.contains(label)),
    };
    Some(Products { flops: 2.0 * all, sides, sequential: 1.0 })
}

/// Steps of a recurrent net: each example of each step meets each weight.
pub(super) fn recurrent(
    input: usize,
    weights: &[usize],
    products: u32,
    operands: &Operands,
) -> Option<Products> {
    let (steps, batch, features) = match *operands.shape(operands.input(input))? {
        [batch, features] => (1.0, batch as f64, features as f64),
        [steps, batch, features] => (steps as f64, batch as f64, features as f64),
        _ => return None,
    };
    let mut values = 0.0;
    for &input in weights {
        values += volume(operands.shape(operands.input(input))?);
    }
    let flops = 2.0 * steps * batch * values * f64::from(products);
    let sides = Sides { rows: batch, columns: values / features.max(1.0), depth: features };
    Some(Products { flops, sides, sequential: steps.max(1.0) })
}
