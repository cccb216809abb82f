//! One thing wrong in a rewritten graph: the checker says no.

use super::generate::{Random, ancestors, random_graph, random_rewrite};
use super::*;

/// Changes one thing. Returns whether that does harm; none if the graph has nothing for this mutation.
type Mutation = fn(&mut Build, &Build, &mut Random) -> Option<bool>;

fn node_where(build: &Build, random: &mut Random, wanted: impl Fn(&NodeDef) -> bool) -> Option<usize> {
    let found: Vec<usize> =
        (0..build.graph.node.len()).filter(|&node| wanted(&build.graph.node[node])).collect();
    random.pick(&found).copied()
}

fn is_added(node: &NodeDef) -> bool {
    node.name.starts_with("lms/")
}

fn is_swap(node: &NodeDef) -> bool {
    node.op == "PreventGradient"
}

fn data_inputs(node: &NodeDef) -> usize {
    node.input.iter().filter(|input| !input.starts_with('^')).count()
}

fn is_copy(node: &NodeDef) -> bool {
    node.name.starts_with("lms/recompute/")
}

/// The node that a recomputed op is a copy of.
fn copied(copy: &str) -> Option<&str> {
    Some(copy.strip_prefix("lms/recompute/")?.rsplit_once('/')?.0)
}

/// The tensor that an input leads back to.
fn origin(build: &Build, input: &str) -> String {
    let mut tensor = input.strip_suffix(":0").unwrap_or(input).to_string();
    while let Some(added) = build.graph.node.iter().find(|node| is_added(node) && node.name == tensor) {
        tensor = copied(&added.name).unwrap_or(&added.input[0]).to_string();
    }
    tensor
}

/// The original nodes that read a recomputed op, or copies of it.
fn readers(build: &Build, original: &Build, copy: &str) -> Vec<usize> {
    let reads = |node: &&NodeDef| node.input.iter().any(|input| input == copy);
    let of = |reader: &NodeDef| match original.graph.node.iter().position(|node| node.name == reader.name) {
        Some(place) => vec![place],
        None => readers(build, original, &reader.name),
    };
    build.graph.node.iter().filter(reads).flat_map(of).collect()
}

const MUTATIONS: &[(&str, Mutation)] = &[
    ("drop a data input", |build, _, random| {
        let node = node_where(build, random, |node| data_inputs(node) > 0)?;
        let slot = random.below(data_inputs(&build.graph.node[node]));
        build.graph.node[node].input.remove(slot);
        Some(true)
    }),
    ("replace a data input", |build, original, random| {
        let node = node_where(build, random, |node| data_inputs(node) > 0 && !is_added(node))?;
        let slot = random.below(data_inputs(&build.graph.node[node]));
        let tensor = random.pick(&original.graph.node)?.name.clone();
        let before = origin(build, &build.graph.node[node].input[slot]);
        build.graph.node[node].input[slot] = tensor.clone();
        // Undoing a swap is harmless.
        Some(tensor != before)
    }),
    ("swap two data inputs", |build, _, random| {
        let node = node_where(build, random, |node| data_inputs(node) > 1)?;
        let (a, b) = (build.graph.node[node].input[0].clone(), build.graph.node[node].input[1].clone());
        build.graph.node[node].input.swap(0, 1);
        Some(origin(build, &a) != origin(build, &b))
    }),
    ("read another output", |build, _, random| {
        let node = node_where(build, random, |node| data_inputs(node) > 0)?;
        let slot = random.below(data_inputs(&build.graph.node[node]));
        let input = &mut build.graph.node[node].input[slot];
        *input = match input.split_once(':') {
            Some((name, "0")) => format!("{name}:1"),
            Some((name, _)) => name.to_string(),
            None => format!("{input}:1"),
        };
        Some(true)
    }),
    ("swap another tensor", |build, original, random| {
        let node = node_where(build, random, is_swap)?;
        let tensor = random.pick(&original.graph.node)?.name.clone();
        let before = origin(build, &build.graph.node[node].input[0]);
        build.graph.node[node].input[0] = tensor.clone();
        Some(tensor != before)
    }),
    ("move a swap", |build, _, random| {
        let node = node_where(build, random, is_swap)?;
        let device = &mut build.graph.node[node].device;
        *device = match random.below(4) {
            0 => String::new(),
            1 => device.replace("CPU", "GPU"),
            2 => device.replace("task:", "task:1"),
            _ => "/device:CPU:0".to_string(),
        };
        Some(true)
    }),
    ("move an original node", |build, _, random| {
        let node = node_where(build, random, |node| !is_added(node))?;
        build.graph.node[node].device += "/device:TPU:0";
        Some(true)
    }),
    ("change an attribute", |build, _, random| {
        let node = node_where(build, random, |node| node.attr.contains_key("T"))?;
        let value = Value::Type(DataType::INT64.number());
        build.graph.node[node].attr.insert("T".to_string(), AttrValue { value: Some(value) });
        Some(true)
    }),
    ("add an attribute", |build, _, random| {
        let node = node_where(build, random, |_| true)?;
        build.graph.node[node].attr.insert("_x".to_string(), AttrValue { value: Some(Value::B(true)) });
        Some(true)
    }),
    ("drop all attributes", |build, _, random| {
        let node = node_where(build, random, |node| !node.attr.is_empty())?;
        build.graph.node[node].attr.clear();
        Some(true)
    }),
    ("change an op", |build, _, random| {
        let node = node_where(build, random, |_| true)?;
        build.graph.node[node].op = "Elu".to_string();
        Some(true)
    }),
    ("rename a node", |build, _, random| {
        let node = node_where(build, random, |_| true)?;
        let before = build.graph.node[node].name.clone();
        let after = format!("{before}x");
        build.graph.node[node].name = after.clone();
        // Its readers follow.
        for input in build.graph.node.iter_mut().flat_map(|node| &mut node.input) {
            if *input == before || *input == format!("^{before}") {
                *input = input.replace(&before, &after);
            }
        }
        Some(true)
    }),
    ("drop a node", |build, _, random| {
        let node = node_where(build, random, |_| true)?;
        let removed = build.graph.node.remove(node);
        let reads = |input: &String| input.trim_start_matches('^') == removed.name;
        let read = build.graph.node.iter().flat_map(|node| &node.input).any(reads);
        Some(!is_added(&removed) || read)
    }),
    ("double a node", |build, _, random| {
        let node = node_where(build, random, |_| true)?;
        let copy = build.graph.node[node].clone();
        build.graph.node.push(copy);
        Some(true)
    }),
    ("add a node", |build, _, _| {
        build.node("extra", "NoOp", "");
        Some(true)
    }),
    ("swap two nodes", |build, _, random| {
        let a = node_where(build, random, |node| !is_added(node))?;
        let b = node_where(build, random, |node| !is_added(node))?;
        build.graph.node.swap(a, b);
        Some(a != b)
    }),
    ("drop an original control input", |build, original, random| {
        let has = |node: &NodeDef| node.input.iter().any(|input| input.starts_with('^'));
        let node = node_where(original, random, has)?;
        let input = original.graph.node[node].input.iter().find(|input| input.starts_with('^'))?;
        build.graph.node[node].input.retain(|kept| kept != input);
        Some(true)
    }),
    ("drop a trigger", |build, original, random| {
        let node = node_where(build, random, |node| node.name.starts_with("lms/swap_in/"))?;
        let data = data_inputs(&build.graph.node[node]);
        build.graph.node[node].input.truncate(data);
        // Without it the swap only starts earlier.
        let _ = original;
        Some(false)
    }),
    ("spell an input in full", |build, _, random| {
        let node = node_where(build, random, |node| data_inputs(node) > 0)?;
        let input = &mut build.graph.node[node].input[0];
        if input.contains(':') {
            return None;
        }
        input.push_str(":0");
        Some(false)
    }),
    ("make a swap wait for its reader", |build, _, random| {
        let reads = |node: &NodeDef| node.input.iter().any(|input| input.starts_with("lms/swap_in/"));
        let node = node_where(build, random, reads)?;
        let reader = build.graph.node[node].clone();
        let swap = reader.input.iter().find(|input| input.starts_with("lms/swap_in/"))?;
        build.get(swap).input.push(format!("^{}", reader.name));
        Some(true)
    }),
    ("make a node wait for one that needs it", |build, original, random| {
        let node = node_where(original, random, |node| data_inputs(node) > 0 && node.op == "Relu")?;
        let reader = &original.graph.node[node];
        let from = origin(build, &reader.input[0]);
        let from = from.split_once(':').map_or(from.as_str(), |(name, _)| name);
        build.get(from).input.push(format!("^{}", reader.name));
        Some(true)
    }),
    ("name a node that is not there", |build, _, random| {
        let node = node_where(build, random, |_| true)?;
        build.graph.node[node].input.push("^nobody".to_string());
        Some(true)
    }),
    ("trigger from a branch", |build, original, random| {
        let inside = |node: &NodeDef| node.name.contains("/t") || node.name.contains("/f");
        let from = node_where(original, random, inside)?;
        // The update is always alive, and behind all.
        let trigger = format!("^{}", original.graph.node[from].name);
        build.get("update").input.push(trigger);
        Some(true)
    }),
    ("trigger from a loop", |build, original, random| {
        let from = node_where(original, random, |node| node.name.contains("/b"))?;
        let trigger = format!("^{}", original.graph.node[from].name);
        build.get("update").input.push(trigger);
        Some(true)
    }),
    ("change the version", |build, _, _| {
        build.graph.versions =
            Some(crate::proto::tensorflow::VersionDef { producer: 9, ..Default::default() });
        Some(true)
    }),
    ("name another train op", |build, _, _| {
        let other = build.train_ops.first().map_or("x".to_string(), |name| format!("{name}x"));
        build.train_op(&other);
        Some(true)
    }),
    ("read another tensor in a copy", |build, original, random| {
        let node = node_where(build, random, is_copy)?;
        let slot = random.below(data_inputs(&build.graph.node[node]));
        let tensor = random.pick(&original.graph.node)?.name.clone();
        let before = origin(build, &build.graph.node[node].input[slot]);
        build.graph.node[node].input[slot] = tensor.clone();
        Some(tensor != before)
    }),
    ("read another output of a copy", |build, _, random| {
        let reads = |node: &NodeDef| node.input.iter().any(|input| input.starts_with("lms/recompute/"));
        let node = node_where(build, random, reads)?;
        let input =
            build.graph.node[node].input.iter_mut().find(|input| input.starts_with("lms/recompute/"))?;
        input.push_str(":1");
        Some(true)
    }),
    ("drop a mark", |build, _, random| {
        let node = node_where(build, random, is_copy)?;
        build.graph.node[node].attr.remove("_lms_recompute")?;
        Some(true)
    }),
    ("change a mark", |build, _, random| {
        let node = node_where(build, random, is_copy)?;
        let mark = AttrValue { value: Some(Value::I(random.below(1000) as i64 + 1_000_000)) };
        build.graph.node[node].attr.insert("_lms_recompute".to_string(), mark);
        Some(true)
    }),
    ("change a copy", |build, _, random| {
        let node = node_where(build, random, is_copy)?;
        let node = &mut build.graph.node[node];
        match random.below(4) {
            0 => node.attr.insert("T".to_string(), AttrValue { value: Some(Value::Type(2)) }),
            1 => node.attr.insert("_y".to_string(), AttrValue { value: Some(Value::B(true)) }),
            2 => node.attr.remove("T"),
            _ => {
                node.experimental_debug_info = Some(Default::default());
                None
            }
        };
        Some(true)
    }),
    ("move a copy", |build, _, random| {
        let node = node_where(build, random, is_copy)?;
        build.graph.node[node].device += "/device:GPU:3";
        Some(true)
    }),
    ("drop a control input of a copy", |build, original, random| {
        let node = node_where(build, random, is_copy)?;
        let of = copied(&build.graph.node[node].name)?.to_string();
        let of = original.graph.node.iter().find(|node| node.name == of)?;
        let wait = of.input.iter().find(|input| input.starts_with('^'))?;
        build.graph.node[node].input.retain(|input| input != wait);
        Some(true)
    }),
    ("drop a trigger of a copy", |build, original, random| {
        let node = node_where(build, random, is_copy)?;
        let of = copied(&build.graph.node[node].name)?.to_string();
        let of = original.graph.node.iter().find(|node| node.name == of)?;
        build.graph.node[node].input.retain(|input| !input.starts_with('^') || of.input.contains(input));
        Some(false)
    }),
    ("copy another node", |build, original, random| {
        let node = node_where(build, random, is_copy)?;
        let before = build.graph.node[node].name.clone();
        let other = &random.pick(&original.graph.node)?.name;
        let after = format!("lms/recompute/{other}/{}", before.rsplit_once('/')?.1);
        build.graph.node[node].name = after.clone();
        build
            .graph
            .node
            .iter_mut()
            .flat_map(|node| &mut node.input)
            .filter(|input| **input == before)
            .for_each(|input| *input = after.clone());
        Some(before != after)
    }),
    ("make a copy wait for its reader", |build, original, random| {
        let node = node_where(build, random, is_copy)?;
        let reader = *readers(build, original, &build.graph.node[node].name).first()?;
        build.graph.node[node].input.push(format!("^{}", original.graph.node[reader].name));
        Some(true)
    }),
    ("copy what must not run again", |build, original, random| {
        let node = ["x", "v", "v/read", "update"][random.below(4)];
        let inputs = original.graph.node.iter().find(|found| found.name == node)?.input.join(" ");
        build.recompute(node, 7777, &inputs);
        Some(true)
    }),
    ("draw random numbers again", |build, original, random| {
        // The op of an original with a copy is another one in both graphs.
        let node = node_where(build, random, is_copy)?;
        let of = copied(&build.graph.node[node].name)?.to_string();
        let mut before = original.clone();
        for build in [&mut before, &mut *build] {
            for node in &mut build.graph.node {
                if node.name == of || copied(&node.name) == Some(&of) {
                    node.op = "RandomUniform".into();
                }
            }
        }
        assert!(verify(&before, build).is_err(), "{of}");
        Some(true)
    }),
    ("trigger a copy from a branch or a loop", |build, original, random| {
        let outside = |node: &NodeDef| is_copy(node) && node.name.matches('/').count() == 3;
        let node = node_where(build, random, outside)?;
        let inside = |node: &NodeDef| ["/t", "/f", "/b"].iter().any(|part| node.name.contains(part));
        let from = node_where(original, random, inside)?;
        build.graph.node[node].input.push(format!("^{}", original.graph.node[from].name));
        Some(true)
    }),
    ("make one step wait for another", |build, original, random| {
        // A second train op, which updates a variable of its own: neither op is to run because of the other.
        let mut before = original.clone();
        let given = random.pick(&["x", "v/read"])?.to_string();
        for build in [&mut before, &mut *build] {
            build.node("w", "VariableV2", "");
            build.node("other/gradient", "Relu", &given);
            build.node("other/update", "AssignAdd", "w other/gradient");
            build.train_op("other/update");
        }
        // Between the steps in either direction: to the update of one, or to what only its update reads.
        let (from, to) = match random.below(3) {
            0 => ("other/update", "update"),
            1 => ("update", "other/update"),
            _ => ("update", "other/gradient"),
        };
        let to = build.graph.node.iter().position(|node| node.name == to)?;
        assert!(verify(&before, build).is_ok(), "two steps that do not wait");
        build.graph.node[to].input.push(format!("^{from}"));
        assert!(verify(&before, build).is_err(), "a step waits for {from}");
        Some(true)
    }),
    ("trigger a copy by what its readers do not need", |build, original, random| {
        let node = node_where(build, random, is_copy)?;
        if !original.train_ops.is_empty() {
            return None;
        }
        let predicate = original.graph.node.iter().position(|node| node.name == "p")?;
        let of = &build.graph.node[node].name;
        let in_loop = of.contains("/b");
        let needed = |reader: &usize| ancestors(original, *reader).contains(&predicate);
        let harm = in_loop || !readers(build, original, of).iter().all(needed);
        build.graph.node[node].input.push("^p".to_string());
        Some(harm)
    }),
];

#[test]
fn harm_is_seen_and_harmless_changes_are_not() {
    let mut seen = vec![[0; 2]; MUTATIONS.len()];
    for seed in 0..120 {
        let mut random = Random::new(seed);
        let original = random_graph(&mut random);
        let rewritten = random_rewrite(&original, &mut random);
        for (index, (name, mutation)) in MUTATIONS.iter().enumerate() {
            let mut mutated = rewritten.clone();
            let Some(harm) = mutation(&mut mutated, &original, &mut random) else { continue };
            seen[index][usize::from(harm)] += 1;
            match verify(&original, &mutated) {
                Ok(_) => assert!(!harm, "seed {seed}: {name} was accepted"),
                Err(error) => assert!(harm, "seed {seed}: {name} was refused: {error}"),
            }
        }
    }
    for ((name, _), seen) in MUTATIONS.iter().zip(seen) {
        assert!(seen[0] + seen[1] > 20, "{name}: {seen:?}");
    }
}

#[test]
fn no_bit_of_a_file_can_flip_unseen() {
    let mut original = chain();
    original.train_op("d");
    let bytes = original.encode();
    let before = original.model();
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        if let Ok(after) = Model::from_bytes("flipped", flipped, &ReadOptions::default()) {
            assert!(
                check(&before, &after, OpRegistry::builtin()).is_err(),
                "bit {bit} of {}",
                bytes.len() * 8
            );
        }
    }
}

#[test]
fn no_flipped_bit_makes_the_checker_panic() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let original = random_graph(&mut random);
        let bytes = random_rewrite(&original, &mut random).encode();
        let before = original.model();
        for _ in 0..200 {
            let mut flipped = bytes.clone();
            let bit = random.below(bytes.len() * 8);
            flipped[bit / 8] ^= 1 << (bit % 8);
            if let Ok(after) = Model::from_bytes("flipped", flipped, &ReadOptions::default()) {
                let _ = check(&before, &after, OpRegistry::builtin());
                let _ = check(&after, &before, OpRegistry::builtin());
                let _ = check(&after, &after, OpRegistry::builtin());
            }
        }
    }
}
