//! What a step takes in at a size, so that rates of different sizes can be compared.

use tf_lms::cli::SweepSpec;
use tf_lms::graph::Graph;
use tf_lms::shape::PlaceholderShapes;
use tf_lms::train::points;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Examples,
    Megapixels,
    Megavoxels,
    /// Millions of elements of what is neither images nor volumes.
    MegaElements,
}

/// How much a step takes in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    pub amount: f64,
    pub unit: Unit,
}

impl Work {
    /// Examples where the batch alone is swept; else pixels or voxels of the largest placeholder with a free dimension.
    pub fn of(spec: &SweepSpec, size: u64, graph: &Graph, shapes: &PlaceholderShapes) -> Work {
        let is_batch = |dimensions: &[usize]| dimensions == [0];
        if spec.free.iter().all(|free| is_batch(&free.dimensions)) {
            return Work { amount: size as f64, unit: Unit::Examples };
        }
        let is_free = |name: &str| spec.free.iter().any(|free| free.placeholder.as_deref() == Some(name));
        let elements = |shape: &[i64]| shape.iter().map(|&size| size.max(1) as f64).product::<f64>();
        let data = shapes.iter().map(|(node, shape)| (graph.name(node), shape));
        let data = data.filter(|(name, _)| is_free(name)).map(|(_, shape)| shape);
        let data = data.max_by(|a, b| elements(a).total_cmp(&elements(b))).unwrap_or_default();
        match points(data) {
            Some((points, "voxels")) => Work { amount: points as f64 / 1e6, unit: Unit::Megavoxels },
            Some((points, _)) => Work { amount: points as f64 / 1e6, unit: Unit::Megapixels },
            None => Work { amount: elements(data) / 1e6, unit: Unit::MegaElements },
        }
    }
}

impl Unit {
    /// As a rate's unit for people: `megapixels/s`.
    pub fn rate(self) -> String {
        format!("{}/s", self.name())
    }

    /// As the name of a column: `megapixels_per_second`.
    pub fn column(self) -> String {
        format!("{}_per_second", self.name().replace(' ', "_"))
    }

    fn name(self) -> &'static str {
        match self {
            Unit::Examples => "examples",
            Unit::Megapixels => "megapixels",
            Unit::Megavoxels => "megavoxels",
            Unit::MegaElements => "million elements",
        }
    }
}
