//! The blocking stages of a server.

use phalanx::blocking::BlockingStage;
use phalanx::net::Resolver;

/// Handles to the stages that have separate threads. They are part of the site instead of `Stages`, which every request
/// holds, because few requests need them.
#[derive(Clone, Copy)]
pub(crate) struct BlockingStages {
    /// Slow operations: reading directories.
    pub(crate) slow: BlockingStage<()>,
    /// Resolves host names; separate so that an unreachable name server delays nothing else.
    pub(crate) resolver: Resolver,
    /// Compresses files; separate so that listings need not wait for it.
    pub(crate) compression: BlockingStage<()>,
    /// Verifies passwords.
    pub(crate) passwords: BlockingStage<()>,
}
