//! The choice of the election in a graph with entries.

use crate::control::election::Election;
use crate::handle::graph::Graph;

impl Graph {
    /// Which stages check that the [cache](Self::cache_bytes) has room for a request before they run it, in a graph
    /// with [entries](crate::StageOptions::entry): only these by default.
    ///
    /// [`Election::EveryStage`] needs the [objects](crate::StageOptions::object) of each stage. Of a cohort that
    /// does not fit beside the requests of other stages, it runs as many as fit. A stage with room for none waits
    /// while others run, at most 10 ms.
    ///
    /// ```
    /// use phalanx_core::{Election, Graph};
    ///
    /// let mut graph = Graph::new();
    /// graph.election(Election::EveryStage);
    /// let accept = graph.stage("accept").entry().object::<[u8; 512]>("head").shared(());
    /// let answer = graph.stage("answer").object::<[u8; 8192]>("body").shared(());
    /// # let _ = (accept, answer);
    /// ```
    pub fn election(&mut self, election: Election) {
        self.cohorts.election = election;
    }
}
