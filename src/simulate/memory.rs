//! A GPU's memory, by who hands it out.

use std::fmt;
use std::str::FromStr;

use super::pool::{Chunk, Pool};

/// Who hands out a GPU's memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Allocator {
    /// TensorFlow's own, which takes all of it as one region: a tensor needs one piece that is large enough, and who finds none waits
    /// for the end of copies.
    #[default]
    BestFit,
    /// CUDA's (`TF_GPU_ALLOCATOR=cuda_malloc_async`), which maps pages: only how much is in use counts, not where. It waits for what
    /// was launched on the GPU, and for no copy: TensorFlow asks it once more behind the end of its compute stream
    /// (`GpuCudaMallocAsyncAllocator::AllocateRaw`), and then gives up.
    Async,
}

impl Allocator {
    /// Both.
    pub const ALL: [Allocator; 2] = [Allocator::BestFit, Allocator::Async];

    /// What it does, in a line.
    pub fn about(self) -> &'static str {
        match self {
            Allocator::BestFit => "TensorFlow's own: the best fit in one region",
            Allocator::Async => "CUDA's, TF_GPU_ALLOCATOR=cuda_malloc_async: in no pieces",
        }
    }

    /// How it is called on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Allocator::BestFit => "bfc",
            Allocator::Async => "async",
        }
    }
}

impl fmt::Display for Allocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Allocator {
    type Err = String;

    fn from_str(text: &str) -> Result<Allocator, String> {
        let named = Allocator::ALL.into_iter().find(|allocator| allocator.name() == text);
        named.ok_or_else(|| "expected bfc or async".to_string())
    }
}

/// What memory a GPU has.
#[derive(Debug, Clone)]
pub(super) enum Memory {
    /// So much, in one pool.
    Pool(Pool),
    /// So much of what is only counted; without a limit it has no end.
    Counted { used_bytes: u64, limit_bytes: Option<u64> },
}

/// Where a buffer is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Held {
    Nowhere,
    Counted,
    Chunk(Chunk),
}

impl Memory {
    /// So many bytes of an allocator, all free.
    pub fn new(allocator: Allocator, bytes: u64) -> Memory {
        match allocator {
            Allocator::BestFit => Memory::Pool(Pool::new(bytes)),
            Allocator::Async => Memory::Counted { used_bytes: 0, limit_bytes: Some(bytes) },
        }
    }

    /// Whether it has an end.
    pub fn is_limited(&self) -> bool {
        !matches!(self, Memory::Counted { limit_bytes: None, .. })
    }

    /// Takes memory, which is counted in whole chunks; none if there is too little.
    pub fn allocate(&mut self, bytes: u64) -> Option<Held> {
        match self {
            Memory::Pool(pool) => pool.allocate(bytes).map(Held::Chunk),
            Memory::Counted { used_bytes, limit_bytes } => {
                let used = used_bytes.saturating_add(bytes);
                if limit_bytes.is_some_and(|limit| used > limit) {
                    return None;
                }
                *used_bytes = used;
                Some(Held::Counted)
            }
        }
    }

    /// Gives so many bytes back that were taken.
    pub fn free(&mut self, held: Held, bytes: u64) {
        match (self, held) {
            (Memory::Pool(pool), Held::Chunk(chunk)) => pool.free(chunk),
            (Memory::Counted { used_bytes, .. }, Held::Counted) => *used_bytes -= bytes,
            _ => {}
        }
    }

    /// How much is taken; of a pool, what idles in its chunks included.
    pub fn used_bytes(&self) -> u64 {
        match self {
            Memory::Pool(pool) => pool.used_bytes(),
            Memory::Counted { used_bytes, .. } => *used_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_no_pieces_ends_at_its_limit() {
        let mut memory = Memory::new(Allocator::Async, 1024);
        let first = memory.allocate(512).unwrap();
        memory.allocate(256).unwrap();
        assert!(memory.allocate(512).is_none());
        // What is free lies on both sides of the second, and serves a third.
        memory.free(first, 512);
        memory.allocate(768).unwrap();
        assert_eq!(memory.used_bytes(), 1024);
        assert!(memory.is_limited());
        // A pool has 512 bytes before and 256 behind it.
        let mut pool = Memory::new(Allocator::BestFit, 1024);
        let first = pool.allocate(512).unwrap();
        pool.allocate(256).unwrap();
        pool.free(first, 512);
        assert!(pool.allocate(768).is_none());
    }

    #[test]
    fn allocators_are_read_as_they_are_shown() {
        for allocator in Allocator::ALL {
            assert_eq!(allocator.to_string().parse(), Ok(allocator));
        }
        assert!("best".parse::<Allocator>().is_err());
    }
}
