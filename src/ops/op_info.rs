//! One op: its signature, and what that comes to for one node.

use super::attr::{Attr, AttrLookup};
use super::error::OpError;
use super::facts::{Fact, Facts};
use super::kernels::{self, GpuKernel};
use crate::dtype::DataType;
use crate::proto::tensorflow::OpDef;
use crate::proto::tensorflow::op_def::ArgDef;

/// The most inputs or outputs of one node. A count beyond it comes from a damaged file.
pub const MAX_PORTS: usize = 1 << 20;

/// One input or output of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// The argument of the op that it belongs to: a place in [`OpInfo::inputs`] or
    /// [`OpInfo::outputs`]. One argument may stand for several tensors, or for none.
    pub arg: usize,
    /// The type of the values, never a ref type.
    pub dtype: DataType,
    /// Whether it is a reference to a variable's buffer.
    pub is_ref: bool,
}

/// What is known about one op.
#[derive(Clone, Debug, PartialEq)]
pub struct OpInfo {
    def: OpDef,
    facts: Facts,
}

impl From<OpDef> for OpInfo {
    fn from(def: OpDef) -> Self {
        let facts = Facts::of(&def.name);
        Self { def, facts }
    }
}

impl OpInfo {
    /// The op's name, as nodes give it.
    pub fn name(&self) -> &str {
        &self.def.name
    }

    /// The whole definition. Built-in ones hold no descriptions and no limits of attributes.
    pub fn def(&self) -> &OpDef {
        &self.def
    }

    /// What is known about the op beyond its signature.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The input arguments.
    pub fn inputs(&self) -> &[ArgDef] {
        &self.def.input_arg
    }

    /// The output arguments.
    pub fn outputs(&self) -> &[ArgDef] {
        &self.def.output_arg
    }

    /// Whether running the op twice may differ from running it once.
    pub fn is_stateful(&self) -> bool {
        self.def.is_stateful
    }

    /// Whether the op changes something that outlives its run: a variable, a queue, a random generator, a file. An op that writes to a
    /// reference has an effect though its definition does not call it stateful.
    pub fn has_effect(&self) -> bool {
        let only_reads = self.facts.has(Fact::ReadsReference);
        let writes = || self.inputs().iter().any(|arg| arg.is_ref) && !only_reads;
        (self.is_stateful() || writes()) && !only_reads && !self.facts.has(Fact::HasNoEffect)
    }

    /// Whether nothing can run with the op that does not feed it.
    pub fn must_be_fed(&self) -> bool {
        // What has a default passes that on.
        self.facts.has(Fact::Fed) && !self.facts.has(Fact::PassesOn)
    }

    /// Whether a node of this op runs functions that it names in attributes. Functions of data sets run on the host, and when they want to.
    pub fn runs_functions(&self) -> bool {
        let is_function = |kind: &str| kind == "func" || kind == "list(func)";
        self.def.attr.iter().any(|attr| is_function(&attr.r#type))
            && !self.def.name.contains("Dataset")
            && !self.def.name.contains("Iterator")
    }

    /// All inputs of a node with these attributes, in order, control inputs aside.
    pub fn input_ports(&self, attrs: &dyn AttrLookup) -> Result<Vec<Port>, OpError> {
        self.ports(&self.def.input_arg, attrs)
    }

    /// All outputs of a node with these attributes, in order.
    pub fn output_ports(&self, attrs: &dyn AttrLookup) -> Result<Vec<Port>, OpError> {
        self.ports(&self.def.output_arg, attrs)
    }

    /// The kernel that a node with these attributes gets on a GPU; none if it cannot run there.
    ///
    /// An op that is not TensorFlow's own has none here, whatever kernels its library brings.
    pub fn gpu_kernel(&self, attrs: &dyn AttrLookup) -> Option<&'static GpuKernel> {
        kernels::find(self.name(), &|name| self.attr(name, attrs))
    }

    /// The node's attribute, or else the op's default for it.
    fn attr<'a>(&'a self, name: &str, attrs: &'a dyn AttrLookup) -> Option<Attr<'a>> {
        attrs.attr(name).or_else(|| {
            let attr = self.def.attr.iter().find(|attr| attr.name == name)?;
            attr.default_value.as_ref().map(Attr::from)
        })
    }

    fn ports(&self, args: &[ArgDef], attrs: &dyn AttrLookup) -> Result<Vec<Port>, OpError> {
        let mut ports = Vec::new();
        for (index, arg) in args.iter().enumerate() {
            let port = |dtype: DataType| Port {
                arg: index,
                dtype: dtype.base(),
                is_ref: arg.is_ref || dtype.is_ref(),
            };
            // Room is checked before anything is allocated.
            let check_room = |count: usize| {
                if count > MAX_PORTS - ports.len() { Err(self.too_many_ports(arg)) } else { Ok(()) }
            };
            if arg.type_list_attr.is_empty() {
                let count = self.count(arg, attrs)?;
                check_room(count)?;
                let dtype = self.single_type(arg, attrs)?;
                ports.extend(std::iter::repeat_n(port(dtype), count));
            } else {
                let dtypes = self.types_attr(&arg.type_list_attr, attrs)?;
                check_room(dtypes.len())?;
                ports.extend(dtypes.into_iter().map(port));
            }
        }
        Ok(ports)
    }

    /// How many tensors of one type an argument stands for.
    fn count(&self, arg: &ArgDef, attrs: &dyn AttrLookup) -> Result<usize, OpError> {
        if arg.number_attr.is_empty() {
            return Ok(1);
        }
        let attr = &arg.number_attr;
        match self.required_attr(attr, attrs)? {
            Attr::Int(value) if value < 0 => {
                Err(OpError::NegativeCount { op: self.def.name.clone(), attr: attr.clone(), value })
            }
            Attr::Int(value) => usize::try_from(value).map_err(|_| self.too_many_ports(arg)),
            _ => Err(self.wrong_kind(attr, "an integer")),
        }
    }

    /// The type of an argument that is not a list of types.
    fn single_type(&self, arg: &ArgDef, attrs: &dyn AttrLookup) -> Result<DataType, OpError> {
        let fixed = DataType::new(arg.r#type);
        if fixed != DataType::INVALID {
            return Ok(fixed);
        }
        if arg.type_attr.is_empty() {
            return Err(OpError::UntypedArg { op: self.def.name.clone(), arg: arg.name.clone() });
        }
        match self.required_attr(&arg.type_attr, attrs)? {
            Attr::Type(dtype) => Ok(dtype),
            _ => Err(self.wrong_kind(&arg.type_attr, "a data type")),
        }
    }

    fn types_attr(&self, name: &str, attrs: &dyn AttrLookup) -> Result<Vec<DataType>, OpError> {
        match self.required_attr(name, attrs)? {
            Attr::Types(dtypes) => Ok(dtypes),
            _ => Err(self.wrong_kind(name, "a list of data types")),
        }
    }

    fn required_attr<'a>(&'a self, name: &str, attrs: &'a dyn AttrLookup) -> Result<Attr<'a>, OpError> {
        self.attr(name, attrs)
            .ok_or_else(|| OpError::MissingAttr { op: self.def.name.clone(), attr: name.to_owned() })
    }

    fn wrong_kind(&self, attr: &str, expected: &'static str) -> OpError {
        OpError::WrongKind { op: self.def.name.clone(), attr: attr.to_owned(), expected }
    }

    fn too_many_ports(&self, arg: &ArgDef) -> OpError {
        OpError::TooManyPorts { op: self.def.name.clone(), arg: arg.name.clone(), limit: MAX_PORTS }
    }
}
