//! Data types of all stages: tensors, dictionaries, sparse matrices, codes.

pub(crate) mod codes;
pub(crate) mod dictionary;
pub(crate) mod sparse;
pub(crate) mod tensor;
