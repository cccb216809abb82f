//! Transposition of a batch of matrices, which is what turns channels first into channels last and back.

const TILE: usize = 32;

/// `from` is `batch` matrices of `rows` × `columns` elements of `element` bytes; `to` gets each transposed.
pub fn batched(from: &[u8], to: &mut [u8], batch: usize, rows: usize, columns: usize, element: usize) {
    assert_eq!(from.len(), batch * rows * columns * element);
    assert_eq!(from.len(), to.len());
    match element {
        1 => typed::<1>(from, to, rows, columns),
        2 => typed::<2>(from, to, rows, columns),
        4 => typed::<4>(from, to, rows, columns),
        8 => typed::<8>(from, to, rows, columns),
        16 => typed::<16>(from, to, rows, columns),
        _ => panic!("softgpu: elements of {element} bytes"),
    }
}

fn typed<const N: usize>(from: &[u8], to: &mut [u8], rows: usize, columns: usize) {
    let (from, to) = (from.as_chunks::<N>().0, to.as_chunks_mut::<N>().0);
    let size = (rows * columns).max(1);
    for (from, to) in from.chunks_exact(size).zip(to.chunks_exact_mut(size)) {
        for top in (0..rows).step_by(TILE) {
            for left in (0..columns).step_by(TILE) {
                for row in top..rows.min(top + TILE) {
                    for column in left..columns.min(left + TILE) {
                        to[column * rows + row] = from[row * columns + column];
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::batched;

    #[test]
    fn every_element_size_and_odd_shapes() {
        for element in [1, 2, 4, 8, 16] {
            for (batch, rows, columns) in [(1, 1, 7), (2, 3, 5), (1, 33, 65), (3, 64, 32)] {
                let count = batch * rows * columns;
                let from: Vec<u8> = (0..count * element).map(|i| (i * 31 % 251) as u8).collect();
                let mut to = vec![0; from.len()];
                batched(&from, &mut to, batch, rows, columns, element);
                for i in 0..count {
                    let (b, row, column) = (i / (rows * columns), i / columns % rows, i % columns);
                    let j = b * rows * columns + column * rows + row;
                    assert_eq!(from[i * element..][..element], to[j * element..][..element]);
                }
                let mut back = vec![0; from.len()];
                batched(&to, &mut back, batch, columns, rows, element);
                assert_eq!(from, back);
            }
        }
    }

    #[test]
    fn nothing_is_nothing() {
        batched(&[], &mut [], 0, 3, 4, 4);
        batched(&[], &mut [], 2, 0, 4, 4);
    }
}
