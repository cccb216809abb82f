//! Data that a graph reads by itself, with TensorFlow's data sets: each worker gets its part, and who goes on from a checkpoint begins
//! where that one was written.
//!
//! Both are TensorFlow's own ops, put in front of what makes an iterator: `AutoShardDataset`, which finds the files that a data set reads
//! and takes each N-th, or each N-th batch if there are no files to share out; and `SkipDataset`.

use std::collections::BTreeMap;

use clap::ValueEnum;
use prost::Message;

use super::TrainError;
use crate::format::op_name;
use crate::proto::tensorflow::attr_value::Value;
use crate::proto::tensorflow::{
    AttrValue, DataType, FunctionDef, GraphDef, NameAttrList, NodeDef, TensorProto,
};

/// How workers share the data that a graph reads by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Share {
    /// By file, or batch by batch where no files are read
    #[default]
    Auto,
    /// Each worker reads its own files
    File,
    /// All read everything, and each takes its own batches
    Data,
    /// Each worker reads all that the graph does, from the beginning
    Off,
}

impl Share {
    /// The number in TensorFlow's `AutoShardPolicy`; none for a data set that stays as it is.
    fn policy(self) -> Option<i64> {
        match self {
            Share::Auto => Some(0),
            Share::File => Some(1),
            Share::Data => Some(2),
            Share::Off => None,
        }
    }
}

/// The part of the data that is a worker's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// How many share the data.
    pub workers: usize,
    /// Which of them this is, from 0.
    pub rank: usize,
    /// How they share it.
    pub share: Share,
    /// How many steps were trained before.
    pub steps_before: u64,
}

impl Part {
    /// The graph with this part of its data. `taken` says of each iterator how often a step takes from it; without any, the graph is
    /// what it was.
    ///
    /// # Errors
    ///
    /// If the content is no GraphDef, or an iterator is made where it cannot be found.
    pub fn of(&self, content: &[u8], taken: &BTreeMap<String, u64>) -> Result<Option<Vec<u8>>, TrainError> {
        let Some(policy) = self.share.policy() else { return Ok(None) };
        let policy = Some(policy).filter(|_| self.workers > 1);
        if taken.is_empty() || (policy.is_none() && self.steps_before == 0) {
            return Ok(None);
        }
        let mut graph = GraphDef::decode(content).map_err(|error| TrainError::NoGraph { error })?;
        for (iterator, &times) in taken {
            let skipped = self.steps_before.saturating_mul(times);
            let wanted = Wanted { policy, workers: self.workers, rank: self.rank, skipped };
            if !wanted.put_before(&mut graph, iterator) {
                return Err(TrainError::HiddenData { iterator: iterator.clone() });
            }
        }
        Ok(Some(graph.encode_to_vec()))
    }
}

/// What is to be done with the data set of one iterator.
struct Wanted {
    policy: Option<i64>,
    workers: usize,
    rank: usize,
    skipped: u64,
}

impl Wanted {
    /// Whether the data set of the iterator was found.
    fn put_before(&self, graph: &mut GraphDef, iterator: &str) -> bool {
        let Some(found) = graph.node.iter().find(|node| node.name == iterator).cloned() else { return false };
        if found.op == "OneShotIterator" {
            return self.put_into(graph, &found);
        }
        let makes = |node: &NodeDef| {
            let made = node.input.get(1).map(|input| op_name(input));
            node.op == "MakeIterator" && made == Some(iterator)
        };
        let makers: Vec<usize> = (0..graph.node.len()).filter(|&index| makes(&graph.node[index])).collect();
        for &maker in &makers {
            let source = graph.node[maker].input[0].clone();
            let prefix = format!("lms/own_data/{}", graph.node[maker].name);
            let mut added = Chain { prefix, of_function: false, nodes: Vec::new() };
            graph.node[maker].input[0] = added.of(self, source, &found);
            graph.node.append(&mut added.nodes);
        }
        !makers.is_empty()
    }

    /// An iterator that has no maker calls a function for its data set: it gets one of its own, which others do not call.
    fn put_into(&self, graph: &mut GraphDef, iterator: &NodeDef) -> bool {
        let Some(Value::Func(factory)) =
            iterator.attr.get("dataset_factory").and_then(|attr| attr.value.clone())
        else {
            return false;
        };
        let library = graph.library.get_or_insert_default();
        let name_of =
            |function: &FunctionDef| function.signature.as_ref().map(|signature| signature.name.clone());
        let found =
            library.function.iter().find(|function| name_of(function).as_ref() == Some(&factory.name));
        let Some(mut own) = found.cloned() else { return false };
        let Some(signature) = &mut own.signature else { return false };
        signature.name = format!("{}_lms_own_data_of_{}", factory.name, iterator.name.replace('/', "_"));
        let name = signature.name.clone();
        let mut added = Chain { prefix: "lms_own_data".to_string(), of_function: true, nodes: Vec::new() };
        for source in own.ret.values_mut() {
            *source = added.of(self, source.clone(), iterator);
        }
        own.node_def.append(&mut added.nodes);
        library.function.push(own);
        let calls_own = |node: &mut NodeDef| {
            let call = NameAttrList { name: name.clone(), ..factory.clone() };
            node.attr.insert("dataset_factory".to_string(), AttrValue { value: Some(Value::Func(call)) });
        };
        graph.node.iter_mut().filter(|node| node.name == iterator.name).for_each(calls_own);
        true
    }
}

/// Nodes that are added one behind the other.
struct Chain {
    prefix: String,
    of_function: bool,
    nodes: Vec<NodeDef>,
}

impl Chain {
    /// Adds what is wanted behind a data set; `iterator` has the types and shapes of its elements. Returns the last one.
    fn of(&mut self, wanted: &Wanted, mut source: String, iterator: &NodeDef) -> String {
        if let Some(policy) = wanted.policy {
            let numbers =
                [self.number("workers", wanted.workers as i64), self.number("rank", wanted.rank as i64)];
            let policy = ("auto_shard_policy", Value::I(policy));
            source = self.data_set(
                "part",
                "AutoShardDataset",
                [vec![source], numbers.into()].concat(),
                iterator,
                Some(policy),
            );
        }
        if wanted.skipped > 0 {
            let count = self.number("taken", i64::try_from(wanted.skipped).unwrap_or(i64::MAX));
            source = self.data_set("rest", "SkipDataset", vec![source, count], iterator, None);
        }
        source
    }

    fn data_set(
        &mut self,
        name: &str,
        op: &str,
        input: Vec<String>,
        iterator: &NodeDef,
        own: Option<(&str, Value)>,
    ) -> String {
        let of_elements = ["output_types", "output_shapes"]
            .into_iter()
            .filter_map(|name| Some((name.to_string(), iterator.attr.get(name)?.clone())));
        let own = own.map(|(name, value)| (name.to_string(), AttrValue { value: Some(value) }));
        self.add(name, op, input, of_elements.chain(own).collect(), "handle")
    }

    fn number(&mut self, name: &str, number: i64) -> String {
        const INT64: i32 = DataType::DtInt64 as i32;
        let tensor = TensorProto {
            dtype: INT64,
            tensor_shape: Some(Default::default()),
            int64_val: vec![number],
            ..TensorProto::default()
        };
        let attr = [("dtype", Value::Type(INT64)), ("value", Value::Tensor(tensor))];
        let attr = attr.map(|(name, value)| (name.to_string(), AttrValue { value: Some(value) }));
        self.add(name, "Const", Vec::new(), attr.into_iter().collect(), "output")
    }

    /// Adds a node, and returns its output as others read it: within functions that has the name that the op gives it.
    fn add(
        &mut self,
        name: &str,
        op: &str,
        input: Vec<String>,
        attr: BTreeMap<String, AttrValue>,
        output: &str,
    ) -> String {
        let name = format!("{}/{name}", self.prefix);
        let device = if self.of_function { "" } else { "/device:CPU:0" };
        let read = if self.of_function { format!("{name}:{output}:0") } else { name.clone() };
        self.nodes.push(NodeDef {
            name,
            op: op.to_string(),
            input,
            device: device.to_string(),
            attr,
            ..NodeDef::default()
        });
        read
    }
}
