//! Why a graph cannot be made to train on several workers.

/// Why a graph cannot be made to train on several workers. Each message says what to do, as far as that is known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParallelError {
    /// A variable of a function that nothing at the file's top level stands for.
    #[error(
        "the function {function:?} works on the variable {variable:?}, which its call at the file's top level does not give it, so \
         worker 0 cannot give it to the others"
    )]
    HiddenVariable {
        /// The function.
        function: String,
        /// The variable.
        variable: String,
    },
    /// Nobody said what a step runs.
    #[error("data-parallel training must know what a step runs: give --train-op NAME")]
    UnknownStep,
    /// Nothing that depends on data is applied to a variable.
    #[error(
        "a step applies nothing to any variable that depends on data, so there is nothing to reduce: is the train op the right one?"
    )]
    NothingTrained,
    /// A device of a certain task.
    #[error("{node:?} is on {device:?}: one file serves all workers, so devices may name no job and no task")]
    NamesTask {
        /// The op.
        node: String,
        /// Its device.
        device: String,
    },
    /// An op that changes variables in a way that is not known.
    #[error("{node:?} (op {op}) writes what depends on data to a variable, in a way that is not known here")]
    UnknownUpdate {
        /// The op.
        node: String,
        /// What it is.
        op: String,
    },
    /// What becomes of a gradient is not understood.
    #[error("what {update:?} applies comes through {node:?} (op {op}): {why}")]
    NotUnderstood {
        /// The op that applies it.
        update: String,
        /// The op that is not understood.
        node: String,
        /// What it is.
        op: String,
        /// Why.
        why: &'static str,
    },
    /// A gradient that is not there in each step, or several times.
    #[error("the gradient {tensor:?} {why}: a worker that leaves out a reduce stops all others")]
    Conditional {
        /// The gradient.
        tensor: String,
        /// Where it is.
        why: &'static str,
    },
    /// A gradient of a type that no collective takes.
    #[error("the gradient {tensor:?} has the type {dtype}, of which TensorFlow's collectives take no mean")]
    GradientType {
        /// The gradient.
        tensor: String,
        /// Its type.
        dtype: String,
    },
    /// A variable of a type that cannot be broadcast.
    #[error("the variable {variable:?} has the type {dtype}, which cannot be given to other workers")]
    VariableType {
        /// The variable.
        variable: String,
        /// Its type.
        dtype: String,
    },
    /// Train ops that have some gradients in common.
    #[error(
        "several train ops share the gradient {tensor:?} and each have others too, so their reduces have no common order"
    )]
    SharedInPart {
        /// The gradient.
        tensor: String,
    },
}
