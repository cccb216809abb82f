//! What branches save for their gradients, without the optionals that it is in.
//!
//! The gradient of a condition is a condition by the same predicate. What it needs of a branch, the branch puts into an optional each,
//! and the other branch gives empty ones. Once both are flat there is no need for that: the gradient's branch runs if that branch ran,
//! and may read the tensor itself. So each of these tensors can leave on its own and be computed again, and none goes by way of the host:
//! in a session the placer prefers the host's kernels for optionals (they are registered with a higher priority than the GPU's), and what
//! is in one is copied there and back.
//!
//! What loops keep of optionals stays in them, since it comes out of a list.

use super::error::FlattenError;
use super::expand::Expansion;
use super::library::CallKind;
use super::parts::{FlatNode, MadeInput, Tensor};

impl Expansion<'_, '_> {
    /// What an `OptionalGetValue` of an instance takes out of an optional, as a tensor of a branch that is taken exactly if the
    /// instance's is; none if it is anything else.
    pub(super) fn unwrapped(
        &mut self,
        instance: u32,
        node: u32,
        output: u32,
    ) -> Result<Option<Tensor>, FlattenError> {
        let body = self.body(instance);
        if body.nodes.op(node as usize) != "OptionalGetValue" {
            return Ok(None);
        }
        let Some(optional) = body.data_input(node, 0) else { return Ok(None) };
        let mut found = self.tensor(instance, optional)?;
        // By the forks of the gradient's condition to what is behind the other one's branches.
        let branches = loop {
            let FlatNode::Made(made) = found.node else { return Ok(None) };
            let made = &self.made[made as usize];
            found = match (made.op.as_str(), made.inputs.first()) {
                ("Switch", Some(&MadeInput::Data(from, read))) => self.tensor(from, read)?,
                ("Switch", Some(&MadeInput::Tensor(tensor))) => tensor,
                ("Merge", _) => break made.inputs.clone(),
                _ => return Ok(None),
            };
        };
        let Some(&MadeInput::Data(first, _)) = branches.first() else { return Ok(None) };
        let Some(condition) = self.instances[first as usize].call else { return Ok(None) };
        let Some(taken) = self.same_branch(instance, condition)? else { return Ok(None) };
        let Some(&MadeInput::Data(branch, returned)) = branches.get(taken) else { return Ok(None) };
        let FlatNode::Body { instance: maker, node: made } = self.tensor(branch, returned)?.node else {
            return Ok(None);
        };
        let body = self.body(maker);
        if body.nodes.op(made as usize) != "OptionalFromValue" {
            return Ok(None);
        }
        match body.data_input(made, output as usize) {
            Some(value) => self.tensor(maker, value).map(Some),
            None => Ok(None),
        }
    }

    /// Which branch of a condition is taken whenever an instance runs, since it is within the same branch of one by the same predicate.
    /// None if that is not so, or if there is a loop between.
    fn same_branch(&mut self, instance: u32, condition: (u32, u32)) -> Result<Option<usize>, FlattenError> {
        let kind = self.kind(condition.0, condition.1);
        let Some(decides) = self.decides(condition)? else { return Ok(None) };
        let mut within = instance;
        while let Some(call) = self.instances[within as usize].call {
            match self.kind(call.0, call.1) {
                CallKind::While => return Ok(None),
                of_call if of_call == kind && self.decides(call)? == Some(decides) => {
                    let parts = &self.instances[call.0 as usize].calls[&call.1].bodies;
                    return Ok(parts.iter().position(|&part| part == within));
                }
                _ => within = call.0,
            }
        }
        Ok(None)
    }

    /// The tensor that decides which branch is taken; none if it is no call with branches.
    fn decides(&mut self, (caller, node): (u32, u32)) -> Result<Option<Tensor>, FlattenError> {
        match (self.kind(caller, node), self.body(caller).data_input(node, 0)) {
            (CallKind::If | CallKind::Case, Some(decides)) => self.deciding(caller, decides).map(Some),
            _ => Ok(None),
        }
    }
}
