//! All ops by name: TensorFlow's own and those that a file brings.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::OnceLock;

use super::op_info::OpInfo;
use super::table::{self, Lazy};
use crate::proto::tensorflow::{OpDef, OpList};

/// An op's place in an [`OpRegistry`], valid for the registry that gave it.
///
/// The place of a built-in op is the same in every registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(u32);

/// Ops by name.
#[derive(Debug)]
pub struct OpRegistry {
    /// The ops below these, which are not copied: those of TensorFlow, or nothing.
    base: Option<&'static OpRegistry>,
    ops: Vec<Lazy<OpInfo>>,
    by_name: HashMap<String, OpId>,
}

impl OpRegistry {
    /// The ops of TensorFlow 2.21, internal ones included.
    pub fn builtin() -> &'static Self {
        static BUILTIN: OnceLock<OpRegistry> = OnceLock::new();
        BUILTIN.get_or_init(|| Self::layer(None, table::entries(include_bytes!("op_defs.pb"))))
    }

    /// The built-in ops and, for names that are not among them, those of a list, such as the one
    /// that a meta graph carries. Of several definitions of one name the first counts.
    pub fn with_extra(extra: &OpList) -> Self {
        let builtin = Self::builtin();
        let new = extra.op.iter().filter(|def| builtin.id(&def.name).is_none());
        let named = new.map(|def| (def.name.clone(), OpInfo::from(def.clone()).into()));
        Self::layer(Some(builtin), named)
    }

    /// Where the op of this name is.
    pub fn id(&self, name: &str) -> Option<OpId> {
        self.base.and_then(|base| base.id(name)).or_else(|| self.by_name.get(name).copied())
    }

    /// The op of this name.
    pub fn get(&self, name: &str) -> Option<&OpInfo> {
        self.id(name).map(|id| self.op(id))
    }

    /// The op at a place that this registry gave.
    ///
    /// # Panics
    ///
    /// If the place is another registry's and lies beyond this one.
    pub fn op(&self, id: OpId) -> &OpInfo {
        let index = id.0 as usize;
        match self.base {
            Some(base) if index < base.len() => base.op(id),
            Some(base) => self.ops[index - base.len()].get::<OpDef>(),
            None => self.ops[index].get::<OpDef>(),
        }
    }

    /// How many ops there are.
    pub fn len(&self) -> usize {
        self.base.map_or(0, Self::len) + self.ops.len()
    }

    /// Whether there is no op at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All ops, the built-in ones first.
    pub fn iter(&self) -> impl Iterator<Item = &OpInfo> {
        self.base.into_iter().flat_map(|base| &base.ops).chain(&self.ops).map(Lazy::get::<OpDef>)
    }

    fn layer(
        base: Option<&'static Self>,
        named_ops: impl IntoIterator<Item = (String, Lazy<OpInfo>)>,
    ) -> Self {
        let mut registry = Self { base, ops: Vec::new(), by_name: HashMap::new() };
        for (name, op) in named_ops {
            // So many ops do not fit in memory.
            let Ok(place) = u32::try_from(registry.len()) else { break };
            if let Entry::Vacant(entry) = registry.by_name.entry(name) {
                entry.insert(OpId(place));
                registry.ops.push(op);
            }
        }
        registry
    }
}
