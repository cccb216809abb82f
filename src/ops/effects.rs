//! Which ops change something that outlives their run.

/// Whether a stateful op only reads a state, gives a handle to it, or keeps it for its run alone.
pub(super) fn changes_nothing(op: &str) -> bool {
    let of_its_run = || ["Stack", "TensorArray"].iter().any(|start| op.starts_with(start));
    STATEFUL_WITHOUT_EFFECT.contains(&op) || only_reads(op) || of_its_run()
}

/// Whether an op takes a reference and does not write to what it refers to.
pub(super) fn only_reads(op: &str) -> bool {
    READ_REFERENCES.contains(&op)
}

/// Ops that TensorFlow calls stateful, so that equal ones are not merged, and that change nothing.
const STATEFUL_WITHOUT_EFFECT: [&str; 24] = [
    "AutoReloadVariable",
    "DeviceIndex",
    "Empty",
    "FIFOQueueV2",
    "GuaranteeConst",
    "HashTableV2",
    "Iterator",
    "IteratorV2",
    "LookupTableFindV2",
    "LookupTableSizeV2",
    "MutableHashTableV2",
    "PaddingFIFOQueueV2",
    "QueueSizeV2",
    "RandomShuffleQueueV2",
    "ReadVariableOp",
    "ResourceGather",
    "ResourceGatherNd",
    "StatelessRandomGetAlg",
    "TemporaryVariable",
    "VarHandleOp",
    "VarIsInitializedOp",
    "VariableShape",
    "_ReadVariablesOp",
    "_VarHandlesOp",
];

const READ_REFERENCES: [&str; 10] = [
    "IsVariableInitialized",
    "RefEnter",
    "RefExit",
    "RefIdentity",
    "RefMerge",
    "RefNextIteration",
    "RefSelect",
    "RefSwitch",
    "Variable",
    "VariableV2",
];
