//! Which nodes must be in one place: those that work on one variable, and those that say so with `_class`.
//!
//! TensorFlow's placer puts all nodes into one group that name the same thing there, whether there is a node of that name or not: functions
//! keep names of what was in the graph that they were traced from. Of a group, one of the nodes stands for such a name here, as a graph may
//! name nothing that it has not.
//!
//! Where a variable lies decides over the devices that nodes ask for.

use std::collections::{HashMap, HashSet};

use super::error::FlattenError;
use super::expand::Expansion;
use super::library::{Local, LocalTensor, Read};
use super::parts::{FlatNode, MadeInput};
use crate::graph::NodeAttrs;

/// The groups of a flat graph.
#[derive(Debug, Default)]
pub(super) struct Colocation {
    /// The group of each name.
    groups: HashMap<Box<str>, u32>,
    /// Of each group the one that it is a part of, or itself.
    within: Vec<u32>,
    /// Of each group the argument that one of its nodes works on.
    handles: Vec<Option<u32>>,
    /// Who stands for a name that no node has.
    leaders: HashMap<Box<str>, FlatNode>,
    /// The variables that nodes work on.
    worked_on: HashMap<FlatNode, u32>,
    /// Names of arguments for which nodes of other names stand.
    absent: HashSet<Box<str>>,
}

impl Colocation {
    /// Finds the groups. `arguments` are the nodes that stand for the function's arguments.
    pub fn of(expansion: &mut Expansion<'_, '_>, arguments: &[u32]) -> Result<Colocation, FlattenError> {
        let standing = arguments.iter().map(|&made| expansion.made[made as usize].name.as_str());
        let standing: HashSet<&str> = standing.collect();
        let names = expansion.body(0).argument_names().filter(|name| !standing.contains(name));
        let mut found = Colocation { absent: names.map(Box::from).collect(), ..Colocation::default() };
        for instance in 0..expansion.instances.len() as u32 {
            let body = expansion.body(instance);
            for node in 0..body.nodes.len() as u32 {
                if expansion.instances[instance as usize].calls.contains_key(&node) {
                    continue;
                }
                let names = NodeAttrs::new(body.nodes, node as usize).colocated_with();
                let flat = FlatNode::Body { instance, node };
                // Handles come first among inputs.
                let handle = match body.inputs.row(node as usize).first() {
                    Some(&Read::Data(read)) => handle_of(expansion, instance, read)?,
                    _ => None,
                };
                if let Some(handle) = handle {
                    found.worked_on.insert(flat, handle);
                }
                if names.is_empty() {
                    continue;
                }
                let own = found.group(expansion.name(flat));
                for name in names {
                    let (name, is_node) = found.full_name(expansion, instance, &name);
                    if !is_node {
                        found.leaders.entry(name.clone()).or_insert(flat);
                    }
                    let other = found.group(&name);
                    found.join(own, other);
                }
                let group = found.find(own);
                found.handles[group as usize] = found.handles[group as usize].or(handle);
            }
        }
        Ok(found)
    }

    fn group(&mut self, name: &str) -> u32 {
        if let Some(&group) = self.groups.get(name) {
            return group;
        }
        let group = self.within.len() as u32;
        self.groups.insert(name.into(), group);
        self.within.push(group);
        self.handles.push(None);
        group
    }

    fn find(&self, mut group: u32) -> u32 {
        while self.within[group as usize] != group {
            group = self.within[group as usize];
        }
        group
    }

    fn join(&mut self, one: u32, other: u32) {
        let (one, other) = (self.find(one), self.find(other));
        let (first, second) = (one.min(other), one.max(other));
        let handle = self.handles[first as usize].or(self.handles[second as usize]);
        self.handles[first as usize] = handle;
        self.within[second as usize] = first;
    }

    /// The variable, by the node that stands for it, whose place is a node's; none if nothing says so.
    pub fn handle(&self, expansion: &Expansion<'_, '_>, node: FlatNode) -> Option<u32> {
        self.worked_on.get(&node).copied().or_else(|| {
            let group = *self.groups.get(expansion.name(node))?;
            self.handles[self.find(group) as usize]
        })
    }

    /// What a node of a body names in `_class`, as nodes of the flat graph.
    pub fn named(&self, expansion: &Expansion<'_, '_>, instance: u32, node: u32) -> Vec<String> {
        let body = expansion.body(instance);
        let flat = FlatNode::Body { instance, node };
        let names = NodeAttrs::new(body.nodes, node as usize).colocated_with();
        let named = names.into_iter().filter_map(|name| {
            let (name, _) = self.full_name(expansion, instance, &name);
            match self.leaders.get(&name) {
                Some(&leader) if leader == flat => None,
                Some(&leader) => Some(expansion.name(leader).to_string()),
                None => Some(name.into_string()),
            }
        });
        named.collect()
    }

    /// The name in the flat graph of what a body calls so, and whether a node has it.
    ///
    /// What is inlined takes its scope along, names of what is not there do not.
    fn full_name(&self, expansion: &Expansion<'_, '_>, instance: u32, name: &str) -> (Box<str>, bool) {
        let around = &expansion.instances[instance as usize];
        match expansion.body(instance).by_name.get(name) {
            Some(&Local::Node(node)) if !around.calls.contains_key(&node) => {
                (expansion.name(FlatNode::Body { instance, node }).into(), true)
            }
            Some(_) => (format!("{}{name}", around.scope).into(), false),
            None => (name.into(), expansion.taken.contains(name) && !self.absent.contains(name)),
        }
    }
}

/// The variable whose handle a tensor is, by the node that stands for it; none if it is no such.
fn handle_of(
    expansion: &mut Expansion<'_, '_>,
    instance: u32,
    read: LocalTensor,
) -> Result<Option<u32>, FlattenError> {
    let mut found = expansion.tensor(instance, read)?;
    while let FlatNode::Made(made) = found.node {
        let node = &expansion.made[made as usize];
        found = match (node.op.as_str(), node.inputs.first()) {
            ("VarHandleOp", _) => return Ok(Some(made)),
            ("Enter" | "Switch" | "Identity", Some(&MadeInput::Data(instance, read))) => {
                expansion.tensor(instance, read)?
            }
            ("Enter" | "Switch" | "Identity", Some(&MadeInput::Tensor(tensor))) => tensor,
            _ => return Ok(None),
        };
    }
    Ok(None)
}
