//! The embedded tables, of which an entry is decoded only when it is first asked for: a graph uses
//! some tens of the thousands of entries.

use std::sync::OnceLock;

use prost::Message;
use prost::bytes::Bytes;

/// A list message, read only as far as its entries' bytes.
#[derive(Clone, PartialEq, Message)]
struct Entries {
    /// `OpList.op` or `KernelList.kernel`.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    entry: Vec<Bytes>,
}

/// An entry, read only as far as its name.
#[derive(Clone, PartialEq, Message)]
struct Named {
    /// `OpDef.name` or `KernelDef.op`.
    #[prost(string, tag = "1")]
    name: String,
}

/// The entries of an embedded table, each under its name. Several may have the same one.
pub(super) fn entries<T>(table: &'static [u8]) -> impl Iterator<Item = (String, Lazy<T>)> {
    let entries = Entries::decode(Bytes::from_static(table)).expect("the embedded table is valid");
    entries.entry.into_iter().map(|encoded| {
        let named = Named::decode(encoded.clone()).expect("the embedded table's entries have names");
        (named.name, Lazy { encoded, decoded: OnceLock::new() })
    })
}

/// A value that is decoded when it is first asked for.
#[derive(Debug)]
pub(super) struct Lazy<T> {
    encoded: Bytes,
    decoded: OnceLock<T>,
}

impl<T> Lazy<T> {
    /// The value, which is made of a message of type `M`.
    pub(super) fn get<M>(&self) -> &T
    where
        M: Message + Default,
        T: From<M>,
    {
        self.decoded.get_or_init(|| {
            let message = M::decode(self.encoded.clone());
            message.expect("a test decodes every entry of the embedded tables").into()
        })
    }
}

impl<T> From<T> for Lazy<T> {
    fn from(value: T) -> Self {
        Self { encoded: Bytes::new(), decoded: OnceLock::from(value) }
    }
}
