//! What TensorFlow says when memory runs out.

/// A failed allocation, as far as TensorFlow's message tells of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutOfMemory {
    /// The shape and type of the tensor, as `[2,64,64,64] of float`.
    pub tensor: Option<String>,
    /// The op that asked for it.
    pub node: Option<String>,
    /// The device.
    pub device: Option<String>,
}

impl OutOfMemory {
    /// Takes a message apart: a kernel's (`OOM when allocating …`) or that of a copy between devices, which names neither
    /// shape nor type (`… unable to allocate output tensor. Key: SENDER;INCARNATION;RECEIVER;…`).
    pub fn of(message: &str) -> OutOfMemory {
        let shape = between(message, "shape", " and type ");
        let dtype = between(message, " and type ", " on ");
        let tensor = shape.zip(dtype).map(|(shape, dtype)| format!("{} of {dtype}", shape.trim()));
        OutOfMemory {
            tensor,
            node: between(message, "{{node ", "}}").map(str::to_string),
            device: between(message, " on ", " by allocator")
                .or_else(|| copy_receiver(message))
                .map(str::to_string),
        }
    }
}

/// Where TensorFlow begins to list all errors that a step ended with, and the first of them.
const LIST: &str = "root error(s) found.";
const FIRST: &str = "(0) ";
/// What it advises after each: a flag of its own, which is of no use to who runs a tool.
const HINT: &str = "\nHint: ";

impl OutOfMemory {
    /// What a message says, once: several parts of a step fail for want of the same memory, and each is listed with a hint.
    pub fn once(message: &str) -> String {
        let list = message.split_once(LIST).and_then(|(_, list)| list.split_once(FIRST));
        let first = list.map_or(message, |(_, first)| first);
        let end = first.find(HINT).unwrap_or(first.len());
        first[..end].trim_end().to_string()
    }
}

/// The device that a failed copy was to go to: the third part of its rendezvous key.
fn copy_receiver(message: &str) -> Option<&str> {
    let key = &message[message.find("unable to allocate output tensor. Key: ")?..];
    key.lines().next()?.split(';').nth(2)
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let rest = &text[text.find(before)? + before.len()..];
    Some(&rest[..rest.find(after)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensor_and_op_are_found() {
        let message = "OOM when allocating tensor with shape[8,64,64,32] and type float on \
                       /job:localhost/replica:0/task:0/device:GPU:0 by allocator PluggableDevice_0_bfc\n\t \
                       [[{{node gradients/conv_grad/Relu}}]]\nHint: …";
        let found = OutOfMemory::of(message);
        assert_eq!(found.tensor.as_deref(), Some("[8,64,64,32] of float"));
        assert_eq!(found.node.as_deref(), Some("gradients/conv_grad/Relu"));
        assert_eq!(found.device.as_deref(), Some("/job:localhost/replica:0/task:0/device:GPU:0"));
        assert_eq!(OutOfMemory::of("no more"), OutOfMemory::default());
    }

    #[test]
    fn one_of_several_errors_is_told() {
        let one =
            "RESOURCE_EXHAUSTED: OOM when allocating tensor with shape[96] and type float\n\t [[{{node a}}]]";
        let hint = "\nHint: If you want to see a list …\n\n\t [[loss/_5]]\nHint: If you want …\n\n";
        let several = format!(
            "RESOURCE_EXHAUSTED: 2 root error(s) found.\n  (0) {one}{hint}  (1) {one}{hint}0 successful"
        );
        assert_eq!(OutOfMemory::once(&several), one);
        assert_eq!(OutOfMemory::once(&format!("{one}{hint}")), one);
        assert_eq!(OutOfMemory::once("no more"), "no more");
    }

    #[test]
    fn a_copy_names_its_receiver() {
        let message = "SameWorkerRecvDone unable to allocate output tensor. Key: \
                       /job:localhost/replica:0/task:0/device:CPU:0;0000000000000001;\
                       /job:localhost/replica:0/task:0/device:GPU:0;edge_144_net/Shape;0:0\n\t [[{{node net/Shape/_7}}]]";
        let found = OutOfMemory::of(message);
        assert_eq!(found.tensor, None);
        assert_eq!(found.node.as_deref(), Some("net/Shape/_7"));
        assert_eq!(found.device.as_deref(), Some("/job:localhost/replica:0/task:0/device:GPU:0"));
    }
}
