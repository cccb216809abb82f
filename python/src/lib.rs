//! The native part of the Python package `tf_lms`: the library, bytes in, bytes out.
//!
//! It opens no TensorFlow, reads no environment and prints nothing. Where it works for long, other threads of Python run.

mod errors;
mod flattening;
mod planning;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use tf_lms::cost::DeviceProfile;
use tf_lms::flatten::Caller;
use tf_lms::size::{Size, parse_size as parse};

use errors::{Refusal, UsageError};
use flattening::Flattened;
use planning::{Planned, Task};

/// What `flatten` returns, as Python gets it.
type FlatParts<'py> = (Bound<'py, PyBytes>, Vec<String>, Vec<String>, String, Vec<(String, String, String)>);

/// Makes a function of a GraphDef's library flat: `(graph, arguments, returns, train_op, kept)`.
///
/// `graph` is a GraphDef, binary; arguments and returns are nodes of it; `kept` has `(node, function, why)` of each call that stays.
#[pyfunction]
fn flatten<'py>(
    py: Python<'py>,
    name: &str,
    graph: PyBackedBytes,
    function: &str,
) -> PyResult<FlatParts<'py>> {
    let flat = py.detach(move || flattening::flatten(name, &graph, function)).map_err(Refusal::into_py)?;
    let Flattened { graph, arguments, returns, train_op, kept } = flat;
    Ok((PyBytes::new(py, &graph), arguments, returns, train_op, kept))
}

/// A flat graph in the order in which TensorFlow lists its nodes where Python or another function calls the function, and without what is
/// passed by there.
#[pyfunction]
fn as_run<'py>(
    py: Python<'py>,
    name: &str,
    graph: PyBackedBytes,
    in_function: bool,
) -> PyResult<Bound<'py, PyBytes>> {
    let caller = if in_function { Caller::Function } else { Caller::Python };
    let graph = py.detach(move || flattening::as_run(name, &graph, caller)).map_err(Refusal::into_py)?;
    Ok(PyBytes::new(py, &graph))
}

/// A GraphDef with all calls at its top level made flat, binary; None if there are none.
#[pyfunction]
fn without_calls<'py>(
    py: Python<'py>,
    name: &str,
    graph: PyBackedBytes,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let flat = py.detach(move || flattening::without_calls(name, &graph)).map_err(Refusal::into_py)?;
    Ok(flat.map(|graph| PyBytes::new(py, &graph)))
}

/// Looks for a plan: `(plan, report, chart)`.
///
/// `plan` is JSON, or None where the graph fits as it is, or with no plan; `report` is the JSON of `tf_lms::pipeline::Summary`; `chart` is SVG,
/// or None where it was not asked for.
#[pyfunction]
fn plan(py: Python<'_>, task: Task, chart: bool) -> PyResult<(Option<String>, String, Option<String>)> {
    let planned = py.detach(move || planning::plan(&task, chart)).map_err(Refusal::into_py)?;
    let Planned { plan, report, chart } = planned;
    Ok((plan, report, chart))
}

/// Carries out a plan, proves that the result computes what the graph does, and returns it in the encoding of the graph.
#[pyfunction]
fn rewrite<'py>(py: Python<'py>, task: Task, plan: String) -> PyResult<Bound<'py, PyBytes>> {
    let bytes = py.detach(move || planning::rewrite(&task, &plan)).map_err(Refusal::into_py)?;
    Ok(PyBytes::new(py, &bytes))
}

/// The least memory of a GPU in bytes for which there is a plan; None if there is none for any. The task's own does not matter.
#[pyfunction]
fn least_memory(py: Python<'_>, task: Task) -> PyResult<Option<u64>> {
    py.detach(move || planning::least_memory(&task)).map_err(Refusal::into_py)
}

/// The bytes of a size such as `16GiB`.
#[pyfunction]
fn parse_size(text: &str) -> PyResult<u64> {
    parse(text).map_err(|why| UsageError::new_err(format!("{text:?} is no size: {why}")))
}

/// A number of bytes with a unit, as the tools print it.
#[pyfunction]
fn format_size(bytes: u64) -> String {
    Size(bytes).to_string()
}

/// The names of the built-in device profiles.
#[pyfunction]
fn profile_names() -> Vec<&'static str> {
    DeviceProfile::names().collect()
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(flatten, module)?)?;
    module.add_function(wrap_pyfunction!(as_run, module)?)?;
    module.add_function(wrap_pyfunction!(without_calls, module)?)?;
    module.add_function(wrap_pyfunction!(plan, module)?)?;
    module.add_function(wrap_pyfunction!(rewrite, module)?)?;
    module.add_function(wrap_pyfunction!(least_memory, module)?)?;
    module.add_function(wrap_pyfunction!(parse_size, module)?)?;
    module.add_function(wrap_pyfunction!(format_size, module)?)?;
    module.add_function(wrap_pyfunction!(profile_names, module)?)
}
