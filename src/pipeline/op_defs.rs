//! Definitions of ops that TensorFlow does not have.

use prost::Message;
use prost_reflect::DynamicMessage;

use super::Error;
use crate::proto::descriptor_pool;
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
    let message = descriptor_pool()
        .get_message_by_name("tensorflow.OpList")
        .ok_or_else(|| wrong("the definitions in proto/ lack OpList".to_string()))?;
    let list = DynamicMessage::parse_text_format(message, text).map_err(|error| wrong(error.to_string()))?;
    list.transcode_to().map_err(|error| wrong(error.to_string()))
}
