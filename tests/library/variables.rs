//! Variables in the memory of a step.

use lms_testing::machine::machine;
use tf_lms::plan::Draft;
use tf_lms::simulate::{NoObserver, Program, simulate};

use crate::outlined::with_step;

/// Of the variables, which have 16 KiB.
const SHAPE: &str = "dim { size: 64 } dim { size: 64 }";

/// What says the shape of what an op makes.
fn shapes(shape: &str) -> String {
    format!(r#"attr {{ key: "_output_shapes" value {{ list {{ shape {{ {shape} }} }} }} }}"#)
}

/// What says that something has floats.
fn float(key: &str) -> String {
    format!(r#"attr {{ key: "{key}" value {{ type: DT_FLOAT }} }}"#)
}

/// A step that gives a variable of 16 KiB a new value by an op, and then needs a tensor of so many times as much.
fn with_new_value(update: &str, times: u32) -> String {
    let shape = SHAPE;
    let (out, t, dtype) = (shapes(shape), float("T"), float("dtype"));
    let large = shapes(&format!("dim {{ size: {times} }} {shape}"));
    format!(
        r#"
        node {{ name: "v" op: "VarHandleOp" {dtype} attr {{ key: "shape" value {{ shape {{ {shape} }} }} }} {} }}
        node {{ name: "read" op: "ReadVariableOp" input: "v" {dtype} {out} }}
        node {{ name: "new" op: "Mul" input: "read" input: "read" {t} {out} }}
        node {{ name: "update" op: "{update}" input: "v" input: "new" {dtype} }}
        node {{ name: "again" op: "ReadVariableOp" input: "v" input: "^update" {dtype} {out} }}
        node {{ name: "large" op: "MatrixDiagPart" input: "again" {t} {large} }}
        node {{ name: "train" op: "NoOp" input: "^large" }}
        "#,
        shapes("")
    )
}

/// A step that reads a variable of 16 KiB, changes it, and uses what it has read once more, which waits for the change if it is told to.
fn with_late_reader(update: &str, waits: bool) -> String {
    let shape = SHAPE;
    let (out, t, dtype) = (shapes(shape), float("T"), float("dtype"));
    let (first, second) = if waits { ("", r#"input: "^update""#) } else { (r#"input: "^late""#, "") };
    format!(
        r#"
        node {{ name: "v" op: "VarHandleOp" {dtype} attr {{ key: "shape" value {{ shape {{ {shape} }} }} }} {} }}
        node {{ name: "read" op: "ReadVariableOp" input: "v" {dtype} {out} }}
        node {{ name: "same" op: "Identity" input: "read" {t} {out} }}
        node {{ name: "new" op: "Mul" input: "read" input: "read" {t} {out} }}
        node {{ name: "update" op: "{update}" input: "v" input: "new" {first} {dtype} }}
        node {{ name: "late" op: "MatrixDiagPart" input: "same" {second} {t} {} }}
        node {{ name: "train" op: "NoOp" input: "^late" input: "^update" }}
        "#,
        shapes(""),
        shapes("dim { size: 64 }")
    )
}

/// TensorFlow copies a variable that it changes while a tensor is left that is what was read of it, and drops the copied with that tensor.
/// What is assigned takes the place of what was there.
#[test]
fn variables_are_copied_that_change_before_their_last_reader() {
    let peak = |update: &str, waits: bool| {
        with_step(&with_late_reader(update, waits), |outline| {
            let program = Program::new(outline, &Draft::default());
            simulate(&program, &machine(Vec::new()), &mut NoObserver).unwrap().gpus[0].peak_bytes
        })
    };
    const VARIABLE: u64 = 16 << 10;
    const SMALL: u64 = 256;
    assert_eq!(peak("AssignSubVariableOp", false), 2 * VARIABLE + SMALL);
    assert_eq!(peak("AssignSubVariableOp", true), 3 * VARIABLE);
    assert_eq!(peak("AssignVariableOp", true), 2 * VARIABLE);
}

/// What is assigned to a variable is its memory from then on, and what it had leaves a hole: a tensor that needs all the rest in one piece
/// has it in one step and not in the next. A sum is formed where the variable is.
#[test]
fn variables_move_where_they_are_assigned_to() {
    let fits = |update: &str, times: u32| {
        with_step(&with_new_value(update, times), |outline| {
            let program = Program::new(outline, &Draft::default());
            simulate(&program, &machine(vec![10 * (16 << 10)]), &mut NoObserver).is_ok()
        })
    };
    assert!(fits("AssignAddVariableOp", 9) && !fits("AssignAddVariableOp", 10));
    assert!(fits("AssignVariableOp", 8) && !fits("AssignVariableOp", 9));
}

/// A step that reads a variable of 16 KiB as a whole, and looks up a row of it, by the variable's own handle or by one that was handed on.
fn with_lookup(handle: &str) -> String {
    let shape = SHAPE;
    let (out, t, dtype, resource) =
        (shapes(shape), float("T"), float("dtype"), r#"attr { key: "T" value { type: DT_RESOURCE } }"#);
    let row = shapes("dim { size: 64 }");
    format!(
        r#"
        node {{ name: "v" op: "VarHandleOp" {dtype} attr {{ key: "shape" value {{ shape {{ {shape} }} }} }} {scalar} }}
        node {{ name: "same" op: "Identity" input: "v" {resource} {scalar} }}
        node {{ name: "p" op: "Placeholder" attr {{ key: "dtype" value {{ type: DT_BOOL }} }} {scalar} }}
        node {{ name: "within" op: "Switch" input: "v" input: "p" {resource} }}
        node {{ name: "deeper" op: "Identity" input: "within:1" {resource} {scalar} }}
        node {{ name: "number" op: "Placeholder" attr {{ key: "dtype" value {{ type: DT_INT32 }} }} {scalar} }}
        node {{
          name: "lookup" op: "ResourceGather" input: "{handle}" input: "number" {dtype} {row}
          attr {{ key: "Tindices" value {{ type: DT_INT32 }} }}
        }}
        node {{ name: "read" op: "ReadVariableOp" input: "v" {dtype} {out} }}
        node {{ name: "used" op: "MatrixDiagPart" input: "read" {t} {row} }}
        node {{ name: "train" op: "NoOp" input: "^used" input: "^lookup" }}
        "#,
        scalar = shapes("")
    )
}

/// A variable whose rows are touched is copied when it is read, also where the row is asked for within a branch, by a handle that leads there.
#[test]
fn reads_are_copied_of_what_rows_are_touched_of_by_any_name() {
    for handle in ["v", "same", "within:1", "deeper"] {
        let peak = with_step(&with_lookup(handle), |outline| {
            let program = Program::new(outline, &Draft::default());
            simulate(&program, &machine(Vec::new()), &mut NoObserver).unwrap().gpus[0].peak_bytes
        });
        assert!(peak >= 2 * (16 << 10), "{handle}: {peak}");
    }
}

/// A loop that carries the handle of a variable around, and changes it in each iteration.
const CARRIED: &str = r#"
    node { name: "v" op: "VarHandleOp" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shape" value { shape { dim { size: 1024 } } } } }
    node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "_output_shapes" value { list { shape { dim { size: 1024 } } } } } }
    node { name: "p" op: "Placeholder" attr { key: "dtype" value { type: DT_BOOL } } }
    node { name: "enter" op: "Enter" input: "v" attr { key: "T" value { type: DT_RESOURCE } } attr { key: "frame_name" value { s: "loop" } } }
    node { name: "merge" op: "Merge" input: "next" input: "enter" attr { key: "T" value { type: DT_RESOURCE } } attr { key: "N" value { i: 2 } } }
    node { name: "go" op: "Enter" input: "p" attr { key: "T" value { type: DT_BOOL } } attr { key: "frame_name" value { s: "loop" } } attr { key: "is_constant" value { b: true } } }
    node { name: "by" op: "Enter" input: "x" attr { key: "T" value { type: DT_FLOAT } } attr { key: "frame_name" value { s: "loop" } } attr { key: "is_constant" value { b: true } } }
    node { name: "on" op: "LoopCond" input: "go" }
    node { name: "switch" op: "Switch" input: "merge" input: "on" attr { key: "T" value { type: DT_RESOURCE } } }
    node { name: "read" op: "ReadVariableOp" input: "switch:1" attr { key: "dtype" value { type: DT_FLOAT } } }
    node { name: "add" op: "AssignAddVariableOp" input: "switch:1" input: "by" input: "^read" attr { key: "dtype" value { type: DT_FLOAT } } }
    node { name: "next" op: "NextIteration" input: "switch:1" input: "^add" attr { key: "T" value { type: DT_RESOURCE } } }
    node { name: "exit" op: "Exit" input: "switch" attr { key: "T" value { type: DT_RESOURCE } } }
    node { name: "train" op: "NoOp" input: "^exit" }
"#;

/// What comes back to where it began is not followed for ever.
#[test]
fn a_handle_may_go_round_a_loop() {
    let peak = with_step(CARRIED, |outline| {
        let program = Program::new(outline, &Draft::default());
        simulate(&program, &machine(Vec::new()), &mut NoObserver).unwrap().gpus[0].peak_bytes
    });
    assert!(peak >= 4 << 10, "{peak}");
}
