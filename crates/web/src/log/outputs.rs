//! The logs of a configuration, and which host uses which log.

use std::io;
use std::sync::Arc;

use phalanx::metrics::Counter;
use phalanx_http::LogFormat;

use crate::config::{AccessLog, Config, LogTarget};
use crate::log::sink::Sink;

/// A log: its line format and its destination.
pub(crate) struct Output {
    pub(super) format: LogFormat,
    pub(super) sink: Arc<Sink>,
}

/// A log that cannot be opened, and why.
pub(crate) type OpenError = (LogTarget, io::Error);

/// The logs of a configuration.
pub(crate) struct Logs {
    outputs: Vec<Arc<Output>>,
    /// Index of each host's log.
    hosts: Vec<Option<usize>>,
    /// Index of the log for requests without a host.
    server: Option<usize>,
    lost: Counter,
}

impl Logs {
    /// Opens the logs of a configuration. Outputs that are open in `old` stay open.
    ///
    /// # Errors
    /// The log that cannot be opened, and why.
    pub(crate) fn open(config: &Config, old: Option<&Self>) -> Result<Arc<Self>, OpenError> {
        let lost = match old {
            Some(old) => old.lost.clone(),
            None => Counter::new(
                "phalanx_web_log_lines_lost",
                "Lines of the access logs that were lost.",
            ),
        };
        let mut outputs: Vec<(AccessLog, Arc<Output>)> = Vec::new();
        let mut open = |log: &AccessLog| -> Result<usize, OpenError> {
            if let Some(at) = outputs.iter().position(|(known, _)| known == log) {
                return Ok(at);
            }
            let sinks = outputs.iter().map(|(_, output)| &output.sink);
            let old = old.into_iter().flat_map(|old| &old.outputs).map(|output| &output.sink);
            let sink = match sinks.chain(old).find(|sink| sink.writes_to(&log.target)) {
                Some(sink) => sink.clone(),
                None => match Sink::open(&log.target, config.runtime.signals, lost.clone()) {
                    Ok(sink) => Arc::new(sink),
                    Err(error) => return Err((log.target.clone(), error)),
                },
            };
            outputs.push((log.clone(), Arc::new(Output { format: log.format.clone(), sink })));
            Ok(outputs.len() - 1)
        };
        let server = config.access_log.as_ref().map(&mut open).transpose()?;
        let host = |log: Option<&AccessLog>| match log {
            Some(log) => open(log).map(Some),
            None => Ok(server),
        };
        let hosts = config.hosts.iter().map(|host| host.access_log.as_ref());
        let hosts = hosts.map(host).collect::<Result<_, _>>()?;
        let outputs = outputs.into_iter().map(|(_, output)| output).collect();
        Ok(Arc::new(Self { outputs, hosts, server, lost }))
    }

    /// The index of the log of a host, or of requests without a host; `None` if they are not logged.
    pub(super) fn index_of(&self, host: Option<usize>) -> Option<usize> {
        host.map_or(self.server, |host| self.hosts[host])
    }

    /// The log with this index.
    pub(super) fn output(&self, number: usize) -> &Arc<Output> {
        &self.outputs[number]
    }

    /// Reopens the files before the next write.
    pub(crate) fn reopen(&self) {
        self.outputs.iter().for_each(|output| output.sink.reopen());
    }

    /// Counter of lines lost because a file was too slow or a write failed.
    pub(crate) fn lost(&self) -> &Counter {
        &self.lost
    }
}
