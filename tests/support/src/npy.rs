//! Files of NumPy's.

/// The content of a file with 32-bit integers of a shape.
pub fn ints(shape: &[usize], numbers: impl IntoIterator<Item = i32>) -> Vec<u8> {
    let sizes: String = shape.iter().map(|size| format!("{size}, ")).collect();
    let described = format!("{{'descr': '<i4', 'fortran_order': False, 'shape': ({sizes}), }}");
    // Ten bytes before it and a line's end make 128.
    let header = format!("{described:<117}\n");
    let mut content = [b"\x93NUMPY\x01\x00\x76\x00", header.as_bytes()].concat();
    content.extend(numbers.into_iter().flat_map(i32::to_le_bytes));
    content
}
