//! What one run of an op asks of a device.

use super::convolution::Convolution;
use super::operands::Operands;
use super::{flops, traffic};
use crate::dtype::DataType;
use crate::ops::{Pass, WorkKind};

/// What one run of an op asks of a device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Work {
    /// Multiplications and additions, as the op is defined, whatever algorithm is taken.
    pub flops: f64,
    /// Bytes read and written.
    pub bytes: f64,
    /// What the arithmetic is like.
    pub arithmetic: Arithmetic,
    /// The least number of kernels that run one after another.
    pub kernels: f64,
}

/// What decides how fast arithmetic is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Arithmetic {
    /// None to speak of.
    None,
    /// Products of matrices.
    Matrix {
        dtype: DataType,
        /// The sides of the product that may be too short to keep the device busy; 1 for none.
        sides: Sides,
    },
    /// A convolution that mixes channels.
    Convolution(Convolution),
    /// A convolution of each channel by itself.
    Depthwise(Pass),
}

/// Sides of a product of matrices, by how many values lie along each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sides {
    pub rows: f64,
    pub columns: f64,
    pub depth: f64,
}

impl Work {
    /// The work of a node of this kind; none if a size that it depends on is unknown.
    pub fn of(kind: WorkKind, operands: &Operands) -> Option<Work> {
        let bytes = traffic::bytes(kind, operands)?;
        let memory = Work { flops: 0.0, bytes, arithmetic: Arithmetic::None, kernels: 1.0 };
        Some(match kind {
            WorkKind::Free | WorkKind::Update | WorkKind::Memory(_) => memory,
            WorkKind::Convolution(pass) => {
                let convolution = Convolution::of(pass, operands)?;
                let arithmetic = Arithmetic::Convolution(convolution);
                Work { flops: convolution.flops(), arithmetic, ..memory }
            }
            WorkKind::Depthwise(pass) => {
                let flops = flops::depthwise(pass, operands)?;
                Work { flops, arithmetic: Arithmetic::Depthwise(pass), ..memory }
            }
            WorkKind::MatrixProduct(transposes) => {
                flops::matrix_product(transposes, operands)?.work(operands, memory)
            }
            WorkKind::Einsum => flops::einsum(operands)?.work(operands, memory),
            WorkKind::Recurrent { input, weights, products } => {
                flops::recurrent(input, weights, products, operands)?.work(operands, memory)
            }
        })
    }
}
