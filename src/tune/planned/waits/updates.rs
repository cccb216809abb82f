//! Ref variables: an op that reads one's buffer may run again only before the variable is written to.

use std::collections::HashMap;

use super::holds::Holds;
use crate::graph::NodeId;
use crate::order::Place;
use crate::plan::{NodeOrder, OrderReason};
use crate::tune::planned::timeline::{Course, Position};

/// Which ops of the step write to what an op reads.
#[derive(Debug, Default)]
pub(in crate::tune::planned) struct Updates {
    /// For each reader of a buffer the variables, by their numbers.
    variables: HashMap<NodeId, Vec<u32>>,
    /// For each variable its updates in the step.
    updates: Vec<Vec<NodeId>>,
}

impl Updates {
    pub fn new(course: &Course) -> Updates {
        let analysis = course.outline.analysis();
        let mut found = Updates::default();
        for (number, variable) in (0u32..).zip(analysis.ref_variables.all()) {
            for &reader in &variable.readers {
                found.variables.entry(reader).or_default().push(number);
            }
            let in_step = variable.updates.iter().copied().filter(|&update| analysis.step.contains(update));
            found.updates.push(in_step.collect());
        }
        found
    }

    /// The edges that keep the updates of all that an op reads behind the op at a place, right before which it is to run again;
    /// none if that cannot be.
    pub fn behind(
        &self,
        course: &Course,
        holds: &Holds,
        node: NodeId,
        place: Position,
    ) -> Option<Vec<NodeOrder>> {
        let Some(variables) = self.variables.get(&node) else { return Some(Vec::new()) };
        let analysis = course.outline.analysis();
        let before = course.node_at(place)?;
        let Place::Gpu(gpu) = course.program.place(course.order[place]) else { return None };
        let may_hold = holds.may_hold(gpu, place);
        let edge = |&update: &NodeId| {
            let is_later = course.place_of_node(update)? > place;
            let may_wait = holds.may_wait(course, update, place)
                && analysis.step.certainly_owns(update)
                && analysis.flow.may_control(before, update);
            let order = NodeOrder { before, after: update, reason: OrderReason::RefVariable };
            (may_hold && is_later && may_wait).then_some(order)
        };
        let updates = variables.iter().flat_map(|&variable| &self.updates[variable as usize]);
        updates.filter(|&&update| analysis.step.share_a_run(node, update)).map(edge).collect()
    }
}
