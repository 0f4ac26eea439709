//! The jobs of one driver on the helper threads.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use crate::blocking::pool::{self, Inbox, Work};
use crate::{Done, Token, Unpark};

pub(crate) struct BlockingJobs {
    inbox: Arc<Inbox>,
    next: u64,
    /// The jobs of requests in flight.
    requests: HashMap<u64, Token>,
    /// The number of jobs that were running when their requests were cancelled. Their results will be dropped.
    cancelled: usize,
}

impl BlockingJobs {
    pub(crate) fn new(driver: Arc<dyn Unpark>) -> Self {
        Self { inbox: Inbox::new(driver), next: 0, requests: HashMap::new(), cancelled: 0 }
    }

    /// Queues `work` for the request `token`. Returns the job's number.
    pub(crate) fn start(&mut self, token: Token, work: Work) -> u64 {
        let job = self.next;
        self.next += 1;
        self.requests.insert(job, token);
        pool::start(work, job, Arc::clone(&self.inbox));
        job
    }

    /// Cancels a job. Returns true if its request ends now, because a job owns its data and may continue without the
    /// request. If a job that changes a file is already running, its request ends with the job.
    pub(crate) fn cancel(&mut self, job: u64, changes_file: bool) -> bool {
        let is_queued = pool::cancel(job, &self.inbox);
        if !is_queued && changes_file {
            return false;
        }
        if self.requests.remove(&job).is_some() && !is_queued {
            self.cancelled += 1;
        }
        true
    }

    /// Takes the results of the helper threads.
    pub(crate) fn take(&mut self) -> Vec<(Token, io::Result<Done>)> {
        // Skip the lock of the inbox if there is nothing to take.
        if self.requests.is_empty() && self.cancelled == 0 {
            return Vec::new();
        }
        let mut results = Vec::new();
        for (job, result) in self.inbox.take() {
            match self.requests.remove(&job) {
                Some(token) => results.push((token, result.map(Done::from))),
                None => self.cancelled -= 1,
            }
        }
        results
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;
    use crate::File;

    struct SendsOnDrop(Sender<()>);

    impl Unpark for SendsOnDrop {
        fn unpark(&self) {
            let _ = self.0.send(());
        }
    }

    /// The result of a cancelled job owns a descriptor or a buffer, so it is not kept until the next job.
    #[test]
    fn results_of_cancelled_jobs_are_dropped() {
        let (sender, receiver) = channel();
        let mut jobs = BlockingJobs::new(Arc::new(SendsOnDrop(sender)));
        let directory = tempfile::tempdir().unwrap();
        let file = File::directory(directory.path()).unwrap();
        let job = jobs.start(Token(7), Work::Sync { file, data_only: false });
        receiver.recv().unwrap();
        assert!(!jobs.cancel(job, true), "a job that changes a file ends with its result");
        assert!(jobs.cancel(job, false));
        assert!(jobs.take().is_empty());
        assert_eq!((jobs.inbox.take().len(), jobs.cancelled), (0, 0));
    }
}
