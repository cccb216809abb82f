//! TensorFlow's pool of GPU memory: best fit with coalescing.

/// TensorFlow takes the whole memory at once and hands it out in multiples of this.
pub const CHUNK_BYTES: u64 = 256;

/// A chunk that is less than twice as large as wanted is handed out whole, unless so much of it would lie idle.
const MOST_IDLE_BYTES: u64 = 128 << 20;

/// What an allocation of so many bytes takes, in whole chunks. Nothing takes nothing.
pub fn in_chunks(bytes: u64) -> u64 {
    bytes.div_ceil(CHUNK_BYTES).saturating_mul(CHUNK_BYTES)
}

/// A place in a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Chunk(u32);

/// The algorithm of TensorFlow's `BFCAllocator` on one region: the smallest free chunk that is large enough, at the lowest
/// address among equals; what is over is split off if it is worth it; free neighbours become one.
///
/// Free chunks are in bins by powers of two, as the runtime has them.
#[derive(Debug, Clone)]
pub struct Pool {
    chunks: Vec<ChunkState>,
    unused: Vec<u32>,
    free: Bins,
    used_bytes: u64,
}

/// A free chunk: its size, its address, its number.
type Free = (u64, u64, u32);

/// The free chunks of a pool, by size and then address. Each bin holds few, so a sorted array is faster than a tree.
#[derive(Debug, Clone)]
struct Bins {
    bins: Vec<Vec<Free>>,
    /// A bit for each bin that is not empty.
    filled: u64,
}

impl Bins {
    fn new() -> Bins {
        Bins { bins: vec![Vec::new(); u64::BITS as usize], filled: 0 }
    }

    fn bin_of(bytes: u64) -> usize {
        bytes.checked_ilog2().unwrap_or(0) as usize
    }

    fn insert(&mut self, chunk: Free) {
        let number = Bins::bin_of(chunk.0);
        let bin = &mut self.bins[number];
        bin.insert(bin.partition_point(|other| *other < chunk), chunk);
        self.filled |= 1 << number;
    }

    fn remove(&mut self, chunk: Free) {
        let number = Bins::bin_of(chunk.0);
        let bin = &mut self.bins[number];
        if let Ok(place) = bin.binary_search(&chunk) {
            bin.remove(place);
        }
        if bin.is_empty() {
            self.filled &= !(1 << number);
        }
    }

    /// Takes the first that has at least so many bytes.
    fn take(&mut self, bytes: u64) -> Option<Free> {
        let own = Bins::bin_of(bytes);
        let place = self.bins[own].partition_point(|chunk| chunk.0 < bytes);
        let (number, place) = match place < self.bins[own].len() {
            true => (own, place),
            false => {
                let larger = self.filled & (u64::MAX << own << 1);
                (larger != 0).then_some((larger.trailing_zeros() as usize, 0))?
            }
        };
        let bin = &mut self.bins[number];
        let chunk = bin.remove(place);
        if bin.is_empty() {
            self.filled &= !(1 << number);
        }
        Some(chunk)
    }
}

#[derive(Debug, Clone, Copy)]
struct ChunkState {
    address: u64,
    bytes: u64,
    is_free: bool,
    before: Option<u32>,
    after: Option<u32>,
}

impl Pool {
    /// A pool of so many bytes.
    pub fn new(bytes: u64) -> Pool {
        let bytes = bytes / CHUNK_BYTES * CHUNK_BYTES;
        let whole = ChunkState { address: 0, bytes, is_free: true, before: None, after: None };
        let mut free = Bins::new();
        free.insert((bytes, 0, 0));
        Pool { chunks: vec![whole], unused: Vec::new(), free, used_bytes: 0 }
    }

    /// Takes a chunk; none if no free one is large enough.
    pub fn allocate(&mut self, bytes: u64) -> Option<Chunk> {
        let bytes = in_chunks(bytes.max(1));
        let (size, _, chunk) = self.free.take(bytes)?;
        if size >= bytes.saturating_mul(2) || size - bytes >= MOST_IDLE_BYTES {
            self.split(chunk, bytes);
        }
        let state = &mut self.chunks[chunk as usize];
        state.is_free = false;
        self.used_bytes += state.bytes;
        Some(Chunk(chunk))
    }

    /// Gives a chunk back.
    pub fn free(&mut self, chunk: Chunk) {
        let mut chunk = chunk.0;
        self.used_bytes -= self.chunks[chunk as usize].bytes;
        let ChunkState { before, after, .. } = self.chunks[chunk as usize];
        if let Some(after) = after.filter(|&after| self.chunks[after as usize].is_free) {
            self.take_from_free(after);
            self.join(chunk, after);
        }
        if let Some(before) = before.filter(|&before| self.chunks[before as usize].is_free) {
            self.take_from_free(before);
            self.join(before, chunk);
            chunk = before;
        }
        let state = &mut self.chunks[chunk as usize];
        state.is_free = true;
        self.free.insert((state.bytes, state.address, chunk));
    }

    /// All chunks in the order of their addresses: how large they are, and which are handed out.
    pub fn chunks(&self) -> impl Iterator<Item = (u64, Option<Chunk>)> {
        // Whatever is split or joined, the first keeps its number.
        let mut next = Some(0u32);
        std::iter::from_fn(move || {
            let number = next?;
            let chunk = self.chunks[number as usize];
            next = chunk.after;
            Some((chunk.bytes, (!chunk.is_free).then_some(Chunk(number))))
        })
    }

    /// The bytes of all chunks that were handed out, what idles in them included.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// Splits what is over off a chunk.
    fn split(&mut self, chunk: u32, bytes: u64) {
        let state = self.chunks[chunk as usize];
        let rest = ChunkState {
            address: state.address + bytes,
            bytes: state.bytes - bytes,
            is_free: true,
            before: Some(chunk),
            after: state.after,
        };
        let number = match self.unused.pop() {
            Some(number) => {
                self.chunks[number as usize] = rest;
                number
            }
            None => {
                self.chunks.push(rest);
                self.chunks.len() as u32 - 1
            }
        };
        if let Some(after) = rest.after {
            self.chunks[after as usize].before = Some(number);
        }
        let state = &mut self.chunks[chunk as usize];
        (state.bytes, state.after) = (bytes, Some(number));
        self.free.insert((rest.bytes, rest.address, number));
    }

    /// Makes two neighbours one, under the number of the first.
    fn join(&mut self, first: u32, second: u32) {
        let ChunkState { bytes, after, .. } = self.chunks[second as usize];
        self.unused.push(second);
        if let Some(after) = after {
            self.chunks[after as usize].before = Some(first);
        }
        let state = &mut self.chunks[first as usize];
        (state.bytes, state.after) = (state.bytes + bytes, after);
    }

    fn take_from_free(&mut self, chunk: u32) {
        let ChunkState { address, bytes, .. } = self.chunks[chunk as usize];
        self.free.remove((bytes, address, chunk));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_smallest_that_is_large_enough() {
        let mut pool = Pool::new(10 << 10);
        let kept: Vec<Chunk> =
            [1024, 256, 512, 256].into_iter().map(|bytes| pool.allocate(bytes).unwrap()).collect();
        pool.free(kept[0]);
        pool.free(kept[2]);
        // 512 bytes lie between the two that are kept; 300 take them whole, as half of them would be too little.
        assert_eq!(pool.allocate(300), Some(kept[2]));
        assert_eq!(pool.used_bytes(), 256 + 256 + 512);
        // A chunk of at least twice the size is split.
        assert!(pool.allocate(512).is_some());
        assert_eq!(pool.used_bytes(), 256 + 256 + 512 + 512);
    }

    #[test]
    fn what_is_not_twice_as_large_idles() {
        let mut pool = Pool::new(1024);
        assert!(pool.allocate(768).is_some());
        assert_eq!(pool.used_bytes(), 1024);
        assert_eq!(pool.allocate(1), None);
    }

    #[test]
    fn idle_bytes_have_a_limit() {
        let mut pool = Pool::new(1 << 30);
        assert!(pool.allocate((1 << 30) - MOST_IDLE_BYTES).is_some());
        assert_eq!(pool.used_bytes(), (1 << 30) - MOST_IDLE_BYTES);
    }

    proptest! {
        /// Whatever comes and goes, chunks do not overlap, cover the region, and no two free ones are neighbours.
        #[test]
        fn chunks_cover_the_region(steps in prop::collection::vec((0u64..5000, any::<prop::sample::Index>(), any::<bool>()), 1..200)) {
            let mut pool = Pool::new(64 << 10);
            let mut kept: Vec<Chunk> = Vec::new();
            for (bytes, which, take) in steps {
                if take {
                    kept.extend(pool.allocate(bytes));
                } else if !kept.is_empty() {
                    pool.free(kept.swap_remove(which.index(kept.len())));
                }
                let mut address = 0;
                let mut used = 0;
                let mut number = Some(pool.chunks.iter().enumerate().position(|(number, chunk)| {
                    chunk.before.is_none() && !pool.unused.contains(&(number as u32))
                }).unwrap() as u32);
                let mut was_free = false;
                let free: HashSet<Free> = pool.free.bins.iter().flatten().copied().collect();
                while let Some(chunk) = number.map(|number| pool.chunks[number as usize]) {
                    prop_assert_eq!(chunk.address, address);
                    prop_assert!(!(was_free && chunk.is_free));
                    prop_assert_eq!(chunk.is_free, free.contains(&(chunk.bytes, chunk.address, number.unwrap())));
                    (was_free, address) = (chunk.is_free, address + chunk.bytes);
                    used += if chunk.is_free { 0 } else { chunk.bytes };
                    number = chunk.after;
                }
                prop_assert_eq!(address, 64 << 10);
                prop_assert_eq!(used, pool.used_bytes());
                let chunks: Vec<(u64, Option<Chunk>)> = pool.chunks().collect();
                prop_assert_eq!(chunks.iter().map(|(bytes, _)| bytes).sum::<u64>(), 64 << 10);
                let taken: HashSet<Chunk> = chunks.iter().filter_map(|&(_, chunk)| chunk).collect();
                prop_assert_eq!(taken, kept.iter().copied().collect());
            }
            for chunk in kept {
                pool.free(chunk);
            }
            prop_assert_eq!(pool.free.bins.iter().flatten().count(), 1);
        }
    }
}
