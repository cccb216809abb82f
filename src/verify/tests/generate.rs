//! Random graphs, and random rewrites that are right.

use std::collections::BTreeSet;

use super::*;

/// A source of random numbers that gives the same ones for the same seed.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub fn next(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, or 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }
}

/// Devices that producers are on.
const DEVICES: [&str; 4] =
    ["", "/device:GPU:0", "/job:worker/task:1/device:GPU:0", "/job:localhost/replica:0/task:0/device:GPU:1"];

/// A random graph with branches, loops, variables, control edges and devices. All inputs but loops' own come from nodes
/// further up.
pub fn random_graph(random: &mut Random) -> Build {
    let mut build = Build::default();
    build.node("x", "Placeholder", "").node("p", "Placeholder", "").node("v", "VariableV2", "");
    build.node("v/read", "Identity", "v");
    // Nodes that are always alive, outside of all loops.
    let mut free = vec!["x".to_string(), "v/read".to_string()];
    for index in 0..4 + random.below(16) {
        let name = format!("n{index}");
        match random.below(10) {
            0 => free.push(branch(&mut build, random, &name, &free)),
            1 => free.push(while_loop(&mut build, random, &name, &free)),
            _ => {
                op(&mut build, random, &name, &free);
                free.push(name);
            }
        }
    }
    // Each reader is before the update.
    let all: Vec<String> = free.iter().map(|name| format!("^{name}")).collect();
    build.node("update", "AssignAdd", &format!("v {} {}", free[free.len() - 1], all.join(" ")));
    if random.chance(50) {
        build.train_op("update");
    }
    build
}

/// A node that reads some of these.
fn op(build: &mut Build, random: &mut Random, name: &str, from: &[String]) {
    let mut inputs = random.pick(from).unwrap().clone();
    let op = match random.below(3) {
        0 => "Relu",
        1 => "Identity",
        _ => {
            inputs = format!("{inputs} {}", random.pick(from).unwrap());
            "AddV2"
        }
    };
    if random.chance(25) {
        inputs = format!("{inputs} ^{}", random.pick(from).unwrap());
    }
    build.node(name, op, &inputs);
    let device = DEVICES[random.below(DEVICES.len())];
    build.device(name, device);
}

fn branch(build: &mut Build, random: &mut Random, name: &str, from: &[String]) -> String {
    let data = random.pick(from).unwrap();
    build.node(&format!("{name}/switch"), "Switch", &format!("{data} p"));
    let mut ends = Vec::new();
    for (output, side) in ["f", "t"].into_iter().enumerate() {
        let first = format!("{name}/{side}0");
        build.node(&first, "Relu", &format!("{name}/switch:{output}"));
        let mut inside = vec![first];
        for index in 1..1 + random.below(4) {
            let next = format!("{name}/{side}{index}");
            op(build, random, &next, &inside);
            inside.push(next);
        }
        ends.extend(inside.pop());
    }
    let merge = format!("{name}/merge");
    build.node(&merge, "Merge", &ends.join(" "));
    merge
}

fn while_loop(build: &mut Build, random: &mut Random, name: &str, from: &[String]) -> String {
    let at = |part: &str| format!("{name}/{part}");
    build.node(&at("enter"), "Enter", random.pick(from).unwrap());
    build.attr(&at("enter"), "frame_name", Value::S(name.as_bytes().to_vec()));
    build.node(&at("header"), "Merge", &format!("{} {}", at("enter"), at("next")));
    build.node(&at("go_on"), "LoopCond", &at("header"));
    build.node(&at("switch"), "Switch", &format!("{} {}", at("header"), at("go_on")));
    build.node(&at("b0"), "Relu", &format!("{}:1", at("switch")));
    let mut inside = vec![at("b0")];
    for index in 1..1 + random.below(4) {
        let next = at(&format!("b{index}"));
        op(build, random, &next, &inside);
        inside.push(next);
    }
    build.node(&at("next"), "NextIteration", &inside[inside.len() - 1]);
    build.node(&at("exit"), "Exit", &at("switch"));
    at("exit")
}

/// The ops that a node is in a row with: those of its branch or loop body, or those outside of all.
fn block(name: &str) -> &str {
    match name.rsplit_once('/') {
        Some((_, "read" | "merge" | "exit")) | None => "",
        Some((_, part)) if part.starts_with(['b', 'f', 't']) => &name[..name.len() - 1],
        Some(_) => name,
    }
}

fn node_of(input: &str) -> &str {
    let name = input.trim_start_matches('^');
    name.split_once(':').map_or(name, |(name, _)| name)
}

/// All that a node needs, itself aside, without loops' own edges.
pub fn ancestors(build: &Build, node: usize) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    let mut open = vec![node];
    while let Some(node) = open.pop() {
        for input in &build.graph.node[node].input {
            let from = build.graph.node.iter().position(|node| node.name == node_of(input)).unwrap();
            if from < node && found.insert(from) {
                open.push(from);
            }
        }
    }
    found
}

/// The host device for a node's tensors.
fn host_of(build: &Build, node: usize) -> String {
    match build.graph.node[node].device.contains("worker") {
        true => HOST.replace("localhost", "worker").replace("task:0", "task:1"),
        false => HOST.to_string(),
    }
}

/// A rewrite of `original` that changes nothing but when things happen.
pub fn random_rewrite(original: &Build, random: &mut Random) -> Build {
    let mut build = original.clone();
    let mut orders = 0;
    for node in 0..original.graph.node.len() {
        let NodeDef { name, op, .. } = &original.graph.node[node];
        if !matches!(op.as_str(), "Relu" | "AddV2" | "Identity" | "Merge")
            || name == "v/read"
            || !random.chance(50)
        {
            continue;
        }
        let swap_out = random.chance(40);
        if swap_out {
            build.swap_out(name).device(&format!("lms/swap_out/{name}/0"), &host_of(original, node));
        }
        for consumer in node + 1..original.graph.node.len() {
            let to = &original.graph.node[consumer];
            if matches!(to.op.as_str(), "NextIteration" | "Merge" | "AssignAdd" | "Exit" | "LoopCond") {
                continue;
            }
            let Some(slot) = to.input.iter().position(|input| input == name) else { continue };
            let same_block = block(&to.name) == block(name);
            let before = ancestors(original, consumer);
            let triggers: Vec<usize> = before
                .iter()
                .copied()
                .filter(|&from| {
                    from > node && same_block && block(&original.graph.node[from].name) == block(name)
                })
                .collect();
            if !same_block {
                continue;
            }
            if random.chance(70) {
                let nth = consumer;
                let swap = format!("lms/swap_in/{name}/0_{nth}");
                let mut inputs = if swap_out { format!("lms/swap_out/{name}/0") } else { name.clone() };
                if let Some(&trigger) = random.pick(&triggers) {
                    let trigger = &original.graph.node[trigger].name;
                    inputs += &match random.chance(30) {
                        true => {
                            orders += 1;
                            build.node(&format!("lms/order/{orders}"), "NoOp", &format!("^{trigger}"));
                            format!(" ^lms/order/{orders}")
                        }
                        false => format!(" ^{trigger}"),
                    };
                }
                build.swap(&swap, &inputs).device(&swap, &host_of(original, node));
                build.graph.node[consumer].input[slot] = swap;
            }
            if swap_out && random.chance(50) {
                build.graph.node[consumer].input.push(format!("^lms/swap_out/{name}/0"));
            }
        }
    }
    random_copies(original, &mut build, random);
    build
}

/// A recomputed op of a random rewrite.
struct Copied {
    node: usize,
    name: String,
    /// What it waits for beyond what its original needs, by way of what it reads too.
    triggers: BTreeSet<usize>,
}

/// Whether a node's output may be the variable's buffer.
fn gives_buffer(original: &Build, node: usize) -> bool {
    let NodeDef { op, input, .. } = &original.graph.node[node];
    let passes = ["Identity", "Switch", "Merge", "Enter", "Exit", "NextIteration"].contains(&op.as_str());
    let reads = || {
        let names = input.iter().filter(|input| !input.starts_with('^')).map(|input| node_of(input));
        names.map(|name| original.graph.node.iter().position(|node| node.name == name).unwrap())
    };
    op == "VariableV2" || passes && reads().any(|from| from < node && gives_buffer(original, from))
}

/// Whether a second execution of a node gives the same.
fn can_run_again(original: &Build, node: usize) -> bool {
    let NodeDef { op, input, .. } = &original.graph.node[node];
    let reads_buffer = |input: &String| {
        let from = original.graph.node.iter().position(|node| node.name == node_of(input)).unwrap();
        gives_buffer(original, from)
    };
    matches!(op.as_str(), "Relu" | "AddV2" | "Identity")
        && !input.iter().filter(|input| !input.starts_with('^')).any(reads_buffer)
}

/// Lets some nodes read copies of what they read, which may read older copies or tensors that are swapped in for them.
fn random_copies(original: &Build, build: &mut Build, random: &mut Random) {
    let mut copies: Vec<Copied> = Vec::new();
    for consumer in 0..original.graph.node.len() {
        let to = &original.graph.node[consumer];
        if matches!(to.op.as_str(), "NextIteration" | "Merge" | "AssignAdd" | "Exit" | "LoopCond") {
            continue;
        }
        let before = ancestors(original, consumer);
        for slot in 0..to.input.len() {
            let name = &to.input[slot];
            let node = original.graph.node.iter().position(|node| node.name == *name);
            let Some(node) = node.filter(|&node| can_run_again(original, node)) else { continue };
            let near = |from: usize| block(&original.graph.node[from].name) == block(name);
            if !near(consumer) || build.graph.node[consumer].input[slot] != *name || !random.chance(60) {
                continue;
            }
            let of_this: Vec<&Copied> =
                copies.iter().filter(|copy| copy.node == node && copy.triggers.is_subset(&before)).collect();
            if let Some(known) = random.pick(&of_this).filter(|_| random.chance(30)) {
                build.graph.node[consumer].input[slot] = known.name.clone();
                continue;
            }
            let mut copy = Copied {
                node,
                name: format!("lms/recompute/{name}/{}", copies.len()),
                triggers: BTreeSet::new(),
            };
            let mut inputs = Vec::new();
            for (place, input) in original.graph.node[node].input.iter().enumerate() {
                let from = original.graph.node.iter().position(|node| node.name == *input);
                let older: Vec<&Copied> = copies
                    .iter()
                    .filter(|older| {
                        Some(older.node) == from && near(older.node) && older.triggers.is_subset(&before)
                    })
                    .collect();
                let swappable = |from: &usize| {
                    near(*from)
                        && matches!(original.graph.node[*from].op.as_str(), "Relu" | "AddV2" | "Merge")
                };
                if let Some(older) = random.pick(&older).filter(|_| random.chance(60)) {
                    inputs.push(older.name.clone());
                    copy.triggers.extend(&older.triggers);
                } else if let Some(from) = from.filter(swappable).filter(|_| random.chance(30)) {
                    // Numbers beyond those that the other swap-ins have.
                    let swap = format!("lms/swap_in/{input}/0_{}", 1000 * (place + 1) + copies.len());
                    build.swap(&swap, input).device(&swap, &host_of(original, from));
                    inputs.push(swap);
                } else {
                    inputs.push(input.clone());
                }
            }
            let behind: Vec<usize> =
                before.iter().copied().filter(|&from| from > node && near(from)).collect();
            if let Some(&trigger) = random.pick(&behind) {
                inputs.push(format!("^{}", original.graph.node[trigger].name));
                copy.triggers.insert(trigger);
            }
            build.recompute(name, copies.len() as u32, &inputs.join(" "));
            build.graph.node[consumer].input[slot] = copy.name.clone();
            copies.push(copy);
        }
    }
}

#[test]
fn random_rewrites_are_accepted() {
    let (mut swaps, mut copies, mut chains, mut of_swaps, mut inside) = (0, 0, 0, 0, 0);
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let original = random_graph(&mut random);
        let rewritten = random_rewrite(&original, &mut random);
        match verify(&original, &rewritten) {
            Ok(verified) => {
                swaps += verified.swap_ins;
                copies += verified.recomputed_ops;
            }
            Err(error) => panic!("seed {seed}: {error}"),
        }
        for copy in rewritten.graph.node.iter().filter(|node| node.name.starts_with("lms/recompute/")) {
            let reads = |prefix: &str| usize::from(copy.input.iter().any(|input| input.starts_with(prefix)));
            chains += reads("lms/recompute/");
            of_swaps += reads("lms/swap_in/");
            inside += usize::from(copy.name.matches('/').count() > 3);
        }
    }
    assert!(swaps > 500 && copies > 500, "{swaps} {copies}");
    assert!(chains > 100 && of_swaps > 50 && inside > 100, "{chains} {of_swaps} {inside}");
}
