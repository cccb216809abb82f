//! Loops as TensorFlow 1 writes them, and their gradients: loops too, which run as often and take off a stack what the first one kept.

use tf_lms::dtype::DataType;
use tf_lms::proto::tensorflow::attr_value::Value;

use super::{Maker, SHAPE, float};
use crate::made_up::type_value;

const SCALAR: &[i64] = &[];

/// The shape of what names a stack: two texts.
const HANDLE: &[i64] = &[2];

/// How often a loop runs.
const TIMES: i32 = 3;

/// A loop that computes the same thing a few times.
pub struct Loop {
    pub output: String,
    frame: String,
    /// What it computes in each iteration, and its gradient reads.
    kept: String,
    /// The constant that is added to the loop's counter: what it waits for is done before the next iteration begins.
    one: String,
}

fn int() -> (&'static str, Value) {
    ("T", type_value(DataType::INT32))
}

/// What an op that works on the handle of a stack says of its type.
fn handle() -> (&'static str, Value) {
    ("T", type_value(DataType::RESOURCE))
}

impl Maker {
    /// The sine of the hyperbolic tangent, over and over.
    pub(super) fn in_a_loop(&mut self, input: &str) -> Loop {
        self.repeated(input, |maker, _, x| {
            let kept = maker.unary("Tanh", x);
            let next = maker.unary("Sin", &kept);
            (kept, next)
        })
    }

    /// The gradient of a loop: the loop keeps on a stack what it is computed from.
    pub(super) fn back_through(&mut self, own: &Loop, gradient: &str) -> String {
        let any = self.constant(DataType::INT32, SCALAR, (-1i32).to_ne_bytes().to_vec());
        let element = || ("elem_type", type_value(DataType::FLOAT));
        let stack = self.builder.add(
            "StackV2",
            &[&any],
            vec![element(), ("stack_name", Value::S(Vec::new()))],
            &[HANDLE],
        );
        let inside = self.enter(&stack, &own.frame, handle(), HANDLE, true);
        let push = self.builder.add("StackPushV2", &[&inside, &own.kept], vec![float()], &[SHAPE]);
        self.waits_for(&own.one, &push);
        let back = self.repeated(gradient, |maker, frame, x| {
            let inside = maker.enter(&stack, frame, handle(), HANDLE, true);
            // Not behind the Switch itself, which runs once more when the loop ends.
            let begun = maker.unary("Identity", x);
            let pop =
                maker.builder.add("StackPopV2", &[&inside, &format!("^{begun}")], vec![element()], &[SHAPE]);
            let by_sine = maker.unary("Cos", &pop);
            let by_sine = maker.builder.add("Mul", &[x, &by_sine], vec![float()], &[SHAPE]);
            let next = maker.builder.add("TanhGrad", &[&pop, &by_sine], vec![float()], &[SHAPE]);
            (pop, next)
        });
        back.output
    }

    /// A loop whose body is made in a frame, of what the iteration begins with: what the counter waits for, and what the next one begins
    /// with.
    fn repeated(
        &mut self,
        input: &str,
        body: impl FnOnce(&mut Maker, &str, &str) -> (String, String),
    ) -> Loop {
        let frame = format!("loop_{}", self.builder.nodes.len());
        let zero = self.constant(DataType::INT32, SCALAR, 0i32.to_ne_bytes().to_vec());
        let i_enter = self.enter(&zero, &frame, int(), SCALAR, false);
        let x_enter = self.enter(input, &frame, float(), SHAPE, false);
        let two = ("N", Value::I(2));
        let i = self.builder.add("Merge", &[&i_enter, &i_enter], vec![int(), two.clone()], &[SCALAR, SCALAR]);
        let x = self.builder.add("Merge", &[&x_enter, &x_enter], vec![float(), two], &[SHAPE, SCALAR]);
        let limit = self.in_iteration(TIMES, &i);
        let less = self.builder.add("Less", &[&i, &limit], vec![int()], &[SCALAR]);
        let go_on = self.builder.add("LoopCond", &[&less], Vec::new(), &[SCALAR]);
        let i_switch = self.builder.add("Switch", &[&i, &go_on], vec![int()], &[SCALAR, SCALAR]);
        let x_switch = self.builder.add("Switch", &[&x, &go_on], vec![float()], &[SHAPE, SHAPE]);
        let (kept, next) = body(self, &frame, &format!("{x_switch}:1"));
        let one = self.in_iteration(1, &kept);
        let i_next = self.builder.add("Add", &[&format!("{i_switch}:1"), &one], vec![int()], &[SCALAR]);
        let i_back = self.builder.add("NextIteration", &[&i_next], vec![int()], &[SCALAR]);
        let x_back = self.builder.add("NextIteration", &[&next], vec![float()], &[SHAPE]);
        for (merge, back) in [(i, i_back), (x, x_back)] {
            self.builder.nodes.iter_mut().find(|node| node.name == merge).unwrap().input[1] = back;
        }
        let output = self.free("Exit", &[&x_switch]);
        Loop { output, frame, kept, one }
    }

    fn enter(
        &mut self,
        tensor: &str,
        frame: &str,
        dtype: (&'static str, Value),
        shape: &[i64],
        is_constant: bool,
    ) -> String {
        let attrs = vec![
            dtype,
            ("frame_name", Value::S(frame.as_bytes().to_vec())),
            ("is_constant", Value::B(is_constant)),
            ("parallel_iterations", Value::I(10)),
        ];
        self.builder.add("Enter", &[tensor], attrs, &[shape])
    }

    /// A number that is there anew in each iteration, behind an op.
    fn in_iteration(&mut self, number: i32, behind: &str) -> String {
        let constant = self.constant(DataType::INT32, SCALAR, number.to_ne_bytes().to_vec());
        self.waits_for(&constant, behind);
        constant
    }

    fn waits_for(&mut self, node: &str, other: &str) {
        let node = self.builder.nodes.iter_mut().find(|one| one.name == node).unwrap();
        node.input.push(format!("^{other}"));
    }
}
