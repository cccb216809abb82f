//! The values that exported models are fed: `testdata/README.md` defines them.

use tf_lms::runtime::Tensor;

use super::manifest::{Input, Kind, Manifest};

/// The feeds of a step, in the order of the manifest's inputs.
pub fn feeds(manifest: &Manifest, seed: u64, step: usize) -> Vec<Tensor> {
    (0..).zip(&manifest.inputs).map(|(number, input)| feed(input, seed, number, step)).collect()
}

/// Whether all steps have the same feeds.
pub fn are_constant(manifest: &Manifest) -> bool {
    !manifest.inputs.iter().any(|input| matches!(&input.kind, Kind::Bool { cycle } if cycle.len() > 1))
}

fn feed(input: &Input, seed: u64, number: u64, step: usize) -> Tensor {
    let shape = &input.feed_shape;
    let count = shape.iter().product::<i64>() as u64;
    let random = |index| bits(seed, number, index);
    match &input.kind {
        Kind::Normal => plain(input, (0..count).map(|index| normal(random(index)))),
        Kind::Int { lo, hi } => {
            plain(input, (0..count).map(|index| (lo + (random(index) % (hi - lo) as u64) as i64) as f64))
        }
        Kind::Const { value } => plain(input, (0..count).map(|_| *value)),
        Kind::Bool { cycle } => Tensor::of(shape, &[cycle[step % cycle.len()]]).unwrap(),
        // What follows only manifests from elsewhere have.
        Kind::True => Tensor::of(shape, &[true]).unwrap(),
        Kind::Binary => plain(input, (0..count).map(|index| (random(index) & 1) as f64)),
        Kind::Onehot => {
            let classes = *shape.last().unwrap() as u64;
            plain(
                input,
                (0..count).map(|index| {
                    let is_hot = random(index / classes) % classes == index % classes;
                    f64::from(u8::from(is_hot))
                }),
            )
        }
    }
}

fn plain(input: &Input, values: impl Iterator<Item = f64>) -> Tensor {
    let shape = &input.feed_shape;
    let tensor = match input.dtype.as_str() {
        "float32" => Tensor::of(shape, &values.map(|value| value as f32).collect::<Vec<_>>()),
        "float64" => Tensor::of(shape, &values.collect::<Vec<_>>()),
        "int32" => Tensor::of(shape, &values.map(|value| value as i32).collect::<Vec<_>>()),
        "int64" => Tensor::of(shape, &values.map(|value| value as i64).collect::<Vec<_>>()),
        other => panic!("{}: no feeds of type {other}", input.name),
    };
    tensor.unwrap()
}

/// 64 random bits for a value of an input.
fn bits(seed: u64, input: u64, index: u64) -> u64 {
    mix(mix(mix(seed).wrapping_add(input)).wrapping_add(index))
}

/// splitmix64.
fn mix(state: u64) -> u64 {
    let z = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn normal(bits: u64) -> f64 {
    let quarters = (0..4).map(|quarter| bits >> (16 * quarter) & 0xffff);
    (quarters.sum::<u64>() as f64 - 131_070.0) / 37_837.0
}

#[test]
fn values_are_those_of_the_readme() {
    let cases = [
        (0, 0, 0xb18a_02f4_6d8d_86c3, 0xbf17_039b, 5),
        (0, 1, 0x6c57_95e1_4b3b_7e33, 0xbeb5_533e, 5),
        (0, 2, 0x1546_a0f2_c927_ea0b, 0x3f36_98de, 3),
        (1, 0, 0xd515_9b73_432a_2795, 0xbe7e_5e93, 1),
        (1, 1, 0x7970_e130_d0c7_742f, 0x3f8a_368c, 1),
        (1, 2, 0x952f_9804_76b1_7683, 0x3e36_f9dd, 1),
    ];
    for (input, index, expected, float, int) in cases {
        let random = bits(1, input, index);
        assert_eq!(random, expected);
        assert_eq!((normal(random) as f32).to_bits(), float);
        assert_eq!(random % 10, int);
    }
}
