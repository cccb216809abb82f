//! What the library refuses, as Python's exceptions.

use std::error::Error as _;

use pyo3::prelude::*;
use tf_lms::Error;
use tf_lms::simulate::Unpredictable;

pyo3::import_exception!(tf_lms.errors, AlreadyRewritten);
pyo3::import_exception!(tf_lms.errors, CannotRewrite);
pyo3::import_exception!(tf_lms.errors, InvalidGraph);
pyo3::import_exception!(tf_lms.errors, UsageError);

/// Why something was not done.
pub enum Refusal {
    /// The library's reason.
    Library(Error),
    /// The graph has been rewritten before.
    Rewritten {
        /// What messages call it.
        name: String,
        /// How many ops were added to it.
        added: usize,
    },
    /// Something of ours that is not data that a user gave.
    Other(String),
}

impl<E: Into<Error>> From<E> for Refusal {
    fn from(error: E) -> Refusal {
        Refusal::Library(error.into())
    }
}

impl Refusal {
    /// The exception.
    pub fn into_py(self) -> PyErr {
        match self {
            Refusal::Rewritten { name, added } => AlreadyRewritten::new_err(format!(
                "{name} has been rewritten already ({added} ops were added); give the original step or graph"
            )),
            Refusal::Other(why) => CannotRewrite::new_err(why),
            Refusal::Library(error) => {
                let text = for_python(&error).unwrap_or_else(|| with_causes(&error));
                match error {
                    Error::Format(_) | Error::Graph(_) | Error::Sizes(_) => InvalidGraph::new_err(text),
                    Error::NoSuchTrainOp { .. }
                    | Error::NoMemory
                    | Error::NoSuchProfile { .. }
                    | Error::Costs(_)
                    | Error::Plan(_)
                    | Error::OtherGraph(_) => UsageError::new_err(text),
                    _ => CannotRewrite::new_err(text),
                }
            }
        }
    }
}

/// The sentence of an error of which the library's names flags of the command line.
fn for_python(error: &Error) -> Option<String> {
    match error {
        Error::UnknownBodies { node, op, why, .. } => Some(match why {
            Some(why) => format!("the step runs {node} (op {op}), which cannot be made flat: {why}"),
            None => format!(
                "the step runs functions that are not looked into, so what it needs is not known: {node} (op {op}); of a loop over a data \
                 set or over batches, give tf_lms.function what is run for each batch, and leave the loop outside; within the step leave \
                 jit_compile=True out"
            ),
        }),
        Error::WithoutTensorFlow { name, why } => Some(format!(
            "{name}: {why}, which takes TensorFlow; have lms-rewrite rewrite the file, or the program train it by tf_lms.LMSHook or \
             tf_lms.function"
        )),
        Error::Unpredictable(Unpredictable::Iterations(unknown)) => Some(format!(
            "how often the loop {} runs is not known, and it keeps {} bytes on a GPU in each iteration; give it a limit that the program \
             knows: for … in tf.range(most) with a break, or tf.while_loop(…, maximum_iterations=most); or give iterations=",
            unknown.loops.join(", nor "),
            unknown.bytes
        )),
        Error::Unpredictable(Unpredictable::Sizes(sizes)) if !sizes.placeholders.is_empty() => Some(format!(
            "the sizes of {} tensors that a step keeps on a GPU are unknown ({}), as these inputs are open: {}; give batch_size=, or data \
             and arguments of known shapes; of LMSHook also shapes=, and values= of the numbers that sizes are made of",
            sizes.count,
            sizes.examples.join(", "),
            sizes.placeholders.join(", ")
        )),
        Error::Unpredictable(Unpredictable::Sizes(sizes)) if sizes.is_of_list() => Some(format!(
            "the sizes of {} tensors that a step keeps on a GPU are unknown ({}), as nobody knows how long the list is that {} stacks; \
             have the program give it a size that it knows (tf.TensorArray(…, size)), or its loop a limit: for … in tf.range(most) with a \
             break; or give iterations=",
            sizes.count,
            sizes.examples.join(", "),
            sizes.deciding.as_deref().unwrap_or_default()
        )),
        Error::Unpredictable(Unpredictable::Sizes(sizes)) if !sizes.fed.is_empty() => Some(format!(
            "the sizes of {} tensors that a step keeps on a GPU are unknown ({}), as what is fed to {} decides them; have the program give a \
             size that it knows (x.shape[1] for tf.shape(x)[1]); LMSHook may be told what is fed: values={{{:?}: N}}",
            sizes.count,
            sizes.examples.join(", "),
            sizes.fed.join(" and "),
            sizes.fed[0]
        )),
        _ => None,
    }
}

/// An error's sentence with those of its causes.
fn with_causes(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
