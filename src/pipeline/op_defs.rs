//! Definitions of ops that TensorFlow does not have.

use prost::Message;

use super::Error;
use crate::format::parse_message;
use crate::proto::tensorflow::OpList;

/// Reads an `OpList`, binary or text. `name` is what messages call the file.
///
/// # Errors
///
/// If the content is none.
pub fn read_op_list(name: &str, content: &[u8]) -> Result<OpList, Error> {
    let wrong = |why: String| Error::OpDefs { name: name.to_string(), why };
    let binary = match OpList::decode(content) {
        Ok(list) => return Ok(list),
        Err(error) => error,
    };
    let text = std::str::from_utf8(content).map_err(|_| wrong(binary.to_string()))?;
    let list = parse_message("tensorflow.OpList", text).map_err(wrong)?;
    list.transcode_to().map_err(|error| wrong(error.to_string()))
}
