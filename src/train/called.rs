//! A step that is a function: the op of the file's graph that calls it, what is fed there and what is fetched.
//!
//! Such a file is a SavedModel of TensorFlow 2. The values of its variables are in its checkpoint, which a function of the file restores,
//! and a function saves them again. What a session runs is the op at the graph's top level for which a signature stands: so the file is
//! trained as it is, or with the one function rewritten.

use std::collections::{HashMap, HashSet};

use prost::Message;

use super::recipe::{Asked, CopyOps, Recipe, TrainRun, Variable, saver, variable_nodes};
use super::{Fed, TrainError};
use crate::flatten::{Flat, find_call, loss_of, signature_of, tensor_of};
use crate::format::op_name;
use crate::graph::{ByName, Graph, NodeId};
use crate::proto::tensorflow::attr_value::Value;
use crate::proto::tensorflow::{AttrValue, ConfigProto, GraphDef, MetaGraphDef, NodeDef, SignatureDef};

/// The signature that TensorFlow 2 keeps for what is to be run after the variables are restored: tables are filled there.
const INIT_SIGNATURE: &str = "__saved_model_init_op";

/// The attribute by which a call says how what it calls is run.
const CONFIG: &str = "config_proto";

/// What the names of the ops begin with that are added to move values between a variable and its copy.
const COPIES: &str = "lms_train/copies/";

/// A variable of which the checkpoint has a copy's value.
///
/// Keras 3 saves its variables so: the file's functions save and restore a variable that begins as a copy of the one that the step
/// works on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Copied {
    /// The variable that the step works on.
    variable: String,
    /// The one that is saved and restored.
    copy: String,
    /// `DataType`.
    dtype: i32,
}

/// How a file's graph runs a step that is a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalledStep {
    /// What to run.
    pub recipe: Recipe,
    /// For each argument that is fed the name of its node in the flat graph, which is the argument's, and that of the file's placeholder.
    pub feeds: Vec<(String, String)>,
    copied: Vec<Copied>,
}

impl CalledStep {
    /// Finds the call. `graph` is the file's, `flat` the function.
    ///
    /// # Errors
    ///
    /// If nothing at the top level calls the function, or it has no such output as is asked for.
    pub fn find(
        graph: &Graph,
        meta_graph: Option<&MetaGraphDef>,
        flat: &Flat,
        asked: &Asked,
    ) -> Result<CalledStep, TrainError> {
        let call = find_call(graph, &flat.function);
        let call = call.ok_or_else(|| TrainError::NoCall { function: flat.function.clone() })?;
        let name = graph.name(call).to_string();
        let feeds = fed_arguments(graph, call, flat);
        let signature = meta_graph.and_then(|meta_graph| signature_of(meta_graph, &name));
        let loss = loss(&name, signature, flat, asked)?;
        let saver = meta_graph.and_then(saver);
        let restored = saver.as_ref().and_then(|saver| {
            let restore = saver.restore.as_str();
            graph.node_ids().find(|&node| graph.name(node) == restore)
        });
        let init = meta_graph.and_then(|meta_graph| {
            let signature = meta_graph.signature_def.get(INIT_SIGNATURE)?;
            Some(op_name(tensor_of(signature.outputs.values().next()?)?).to_string())
        });
        let copied = restored.map(|restore| copied(graph, restore)).unwrap_or_default();
        let moves = |what: &str| copied.iter().map(|each| format!("{COPIES}{what}/{}", each.copy)).collect();
        let recipe = Recipe {
            copies: CopyOps { restored: moves("restored"), saved: moves("saved"), dropped: moves("dropped") },
            train_ops: vec![name.clone()],
            runs: vec![TrainRun { train_ops: vec![name], fetches_loss: loss.is_some() }],
            loss,
            placeholders: feeds.iter().map(|(argument, _)| argument.clone()).collect(),
            table_init_ops: init.into_iter().collect(),
            variables: restored.map(|restore| variables(graph, restore, &copied)).unwrap_or_default(),
            saver,
            ..Recipe::default()
        };
        if !asked.restore
            && let Some(first) = variable_nodes(graph).next()
        {
            let (variables, example) = (variable_nodes(graph).count(), graph.name(first).to_string());
            return Err(TrainError::NoInit { variables, example });
        }
        Ok(CalledStep { recipe, feeds, copied })
    }

    /// The file's graph with a configuration for all calls, as [`with_configured_calls`] has it, and for the step's.
    ///
    /// With `inlined` the session puts the calls' bodies in their place: what works on a variable then names no device. It goes where the
    /// variable is, which is where a call that stays one has it too; traced where there is no GPU, it would have the variable go to the CPU.
    ///
    /// # Errors
    ///
    /// If the content is no GraphDef.
    pub fn configured(
        &self,
        graph_def: &[u8],
        config: &ConfigProto,
        inlined: bool,
    ) -> Result<Vec<u8>, prost::DecodeError> {
        let mut def = GraphDef::decode(graph_def)?;
        let config = of_call(config);
        configure(&mut def, &config);
        let functions = def.library.iter_mut().flat_map(|library| &mut library.function);
        let nodes = functions.flat_map(|function| &mut function.node_def);
        nodes.filter(|node| inlined && takes_variable(&node.op)).for_each(|node| node.device.clear());
        for node in def.node.iter_mut().filter(|node| self.recipe.train_ops.contains(&node.name)) {
            node.attr.insert(CONFIG.to_string(), config.clone());
        }
        def.node.extend(self.copied.iter().flat_map(Copied::nodes));
        Ok(def.encode_to_vec())
    }

    /// The same values under the names that the file's graph has for what is fed.
    pub fn renamed(&self, fed: Vec<Fed>) -> Vec<Fed> {
        let names: HashMap<&str, &str> =
            self.feeds.iter().map(|(argument, name)| (argument.as_str(), name.as_str())).collect();
        let renamed = fed.into_iter().filter_map(|fed| {
            let name = names.get(fed.name.as_str())?.to_string();
            Some(Fed { name, ..fed })
        });
        renamed.collect()
    }
}

/// A graph with a configuration for all calls in it: by their own TensorFlow optimizes what they call, whatever the session's says.
///
/// # Errors
///
/// If the content is no GraphDef.
pub fn with_configured_calls(graph_def: &[u8], config: &ConfigProto) -> Result<Vec<u8>, prost::DecodeError> {
    let mut def = GraphDef::decode(graph_def)?;
    configure(&mut def, &of_call(config));
    Ok(def.encode_to_vec())
}

/// The attribute that has a call optimize no more than the sessions of this tool, and inline what it calls, as a rewritten step has no calls.
fn of_call(config: &ConfigProto) -> AttrValue {
    let mut config = config.clone();
    let graph_options = config.graph_options.get_or_insert_default();
    graph_options.optimizer_options.get_or_insert_default().do_function_inlining = true;
    // As in the sessions of this tool, of which only what runs is placed, there is no Grappler.
    graph_options.rewrite_options.get_or_insert_default().disable_meta_optimizer = true;
    AttrValue { value: Some(Value::S(config.encode_to_vec())) }
}

/// Gives it to all calls that have one.
fn configure(def: &mut GraphDef, config: &AttrValue) {
    let functions = def.library.iter_mut().flat_map(|library| &mut library.function);
    let nodes = functions.flat_map(|function| &mut function.node_def).chain(&mut def.node);
    for attr in nodes.filter_map(|node| node.attr.get_mut(CONFIG)) {
        *attr = config.clone();
    }
}

/// Whether an op works on a variable that it is given.
fn takes_variable(op: &str) -> bool {
    op.starts_with("Resource") || op.ends_with("VariableOp")
}

impl Copied {
    /// The ops that move the value there and back, and one that gives the copy's memory back.
    fn nodes(&self) -> Vec<NodeDef> {
        let Copied { variable, copy, dtype } = self;
        let node = |what: &str, op: &str, input: Vec<String>, dtype: Option<i32>| NodeDef {
            name: format!("{COPIES}{what}/{copy}"),
            op: op.to_string(),
            input,
            attr: dtype
                .map(|dtype| ("dtype".to_string(), AttrValue { value: Some(Value::Type(dtype)) }))
                .into_iter()
                .collect(),
            ..NodeDef::default()
        };
        let moved = |what: &str, from: &str, to: &str| {
            let read = node(&format!("read_{what}"), "ReadVariableOp", vec![from.to_string()], Some(*dtype));
            let assign =
                node(what, "AssignVariableOp", vec![to.to_string(), read.name.clone()], Some(*dtype));
            [read, assign]
        };
        let mut nodes = Vec::from(moved("restored", copy, variable));
        nodes.extend(moved("saved", variable, copy));
        nodes.push(node("dropped", "DestroyResourceOp", vec![copy.clone()], None));
        nodes
    }
}

/// The variables that begin as copies of others and are restored in place of them.
fn copied(graph: &Graph, restore: NodeId) -> Vec<Copied> {
    let restored: HashSet<NodeId> =
        graph.data_inputs(restore).iter().map(|&input| graph.producer(input)).collect();
    let mut found = Vec::new();
    for node in graph.node_ids().filter(|&node| graph.op(node).name() == "AssignVariableOp") {
        let &[copy, value] = graph.data_inputs(node) else { continue };
        let (copy, read) = (graph.producer(copy), graph.producer(value));
        let is_there = |node: NodeId| node.index() < graph.len();
        if !is_there(copy) || !is_there(read) || graph.op(read).name() != "ReadVariableOp" {
            continue;
        }
        let Some(&handle) = graph.data_inputs(read).first() else { continue };
        let variable = graph.producer(handle);
        if is_there(variable) && restored.contains(&copy) && !restored.contains(&variable) {
            let [variable, copy] = [variable, copy].map(|node| graph.name(node).to_string());
            found.push(Copied { variable, copy, dtype: graph.output_type(value).dtype.number() });
        }
    }
    found
}

/// The arguments that are placeholders, in the function and at the top level.
fn fed_arguments(graph: &Graph, call: NodeId, flat: &Flat) -> Vec<(String, String)> {
    let nodes = flat.model.nodes();
    let is_fed: HashMap<&str, bool> =
        (0..nodes.len()).map(|node| (nodes.name(node), nodes.op(node) == "Placeholder")).collect();
    let pairs = flat.arguments.iter().zip(graph.data_inputs(call));
    let fed = pairs.filter_map(|((node, _), &input)| {
        let from = graph.producer(input);
        let is_placeholder = from.index() < graph.len() && graph.op(from).name() == "Placeholder";
        let is_fed = is_fed.get(node.as_str()) == Some(&true);
        (is_placeholder && is_fed).then(|| (node.clone(), graph.name(from).to_string()))
    });
    fed.collect()
}

/// The output that is the loss: what was asked for, or else what [`loss_of`] finds.
fn loss(
    call: &str,
    signature: Option<&SignatureDef>,
    flat: &Flat,
    asked: &Asked,
) -> Result<Option<String>, TrainError> {
    match (loss_of(call, signature, flat, asked.loss.as_deref()), &asked.loss) {
        (Some(index), _) => Ok(Some(format!("{call}:{index}"))),
        (None, None) => Ok(None),
        (None, Some(wanted)) => Err(TrainError::NoSuchName {
            what: "output of the step",
            name: wanted.clone(),
            given_by: "--loss".to_string(),
            near: signature.map(|signature| signature.outputs.keys().cloned().collect()).unwrap_or_default(),
        }),
    }
}

/// The variables that the file's function restores, with an op that reads each.
fn variables(graph: &Graph, restore: NodeId, copied: &[Copied]) -> Vec<Variable> {
    let mut reads: HashMap<NodeId, NodeId> = HashMap::new();
    for node in graph.node_ids().filter(|&node| graph.op(node).name() == "ReadVariableOp") {
        if let Some(&handle) = graph.data_inputs(node).first() {
            reads.entry(graph.producer(handle)).or_insert(node);
        }
    }
    let handles = graph.data_inputs(restore).iter().map(|&input| graph.producer(input));
    let by_name = ByName::of(graph);
    let of_copy: HashMap<&str, NodeId> =
        copied.iter().filter_map(|each| Some((each.copy.as_str(), by_name.node(&each.variable)?))).collect();
    let known = handles.filter(|handle| handle.index() < graph.len());
    let variable = |handle: NodeId| {
        let handle = of_copy.get(graph.name(handle)).copied().unwrap_or(handle);
        let read = *reads.get(&handle)?;
        let snapshot = format!("{}:0", graph.name(read));
        Some(Variable { name: graph.name(handle).to_string(), initial: None, snapshot })
    };
    known.filter_map(variable).collect()
}
