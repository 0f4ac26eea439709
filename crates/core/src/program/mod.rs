pub(crate) mod operation_sizes;
pub(crate) mod processor_id;
pub(crate) mod program;
pub(crate) mod trace;
