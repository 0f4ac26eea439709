//! Health checks: regular requests to a server, which gets no requests of clients while the checks fail.

use std::io::{self, Error};
use std::pin::pin;
use std::sync::Weak;

use phalanx::net::{IoTimeout, Resolver};
use phalanx::runtime::report;
use phalanx::shutdown::draining;
use phalanx::task::Either;
use phalanx::time::timeout;
use phalanx::{select, sleep};
use phalanx_http::client::parse_and_repair;
use phalanx_tls::dial;

use crate::config::HealthCheck;
use crate::upstream::counters::UpstreamCounters;
use crate::upstream::group::{Group, Member};
use crate::upstream::health::is_exhausted;
use crate::upstream::multiplexed::{connect, error};

/// Size of the head of a response to a check, in bytes.
const MAX_HEAD: usize = 16 * 1024;

/// Checks a server of a group until the program drains. If a reload removes the group, its session ends.
pub(crate) async fn check(
    group: Weak<Group>,
    number: usize,
    resolver: Resolver,
    counters: UpstreamCounters,
) {
    let (mut results, mut draining) = (Results::default(), draining());
    let mut gauge = None;
    loop {
        let interval = {
            let Some(group) = group.upgrade() else { return };
            let Some(check) = &group.rule.health else { return };
            let member = &group.members[number];
            let gauge = gauge.get_or_insert_with(|| counters.check(&member.upstream));
            // Boxed, so that the operation does not reserve its memory between two checks.
            let probed = Box::pin(timeout(check.timeout, probe(member, check, &resolver)));
            let Either::Right(found) = select(&mut draining, probed).await else { return };
            let failure = match found {
                Ok(found) => found.err(),
                Err(_) => Some(Error::other(format!("no response within {:?}", check.timeout))),
            };
            // A check that fails because this machine lacks resources says nothing about the server.
            let is_result = !failure.as_ref().is_some_and(is_exhausted);
            if is_result && let Some(is_up) = results.add(failure.is_none(), check) {
                member.health.checked(is_up);
                gauge.set(is_up);
                report_result(member, failure, results.is_first);
            }
            check.interval
        };
        if let Either::Left(()) = select(&mut draining, sleep(interval)).await {
            return;
        }
    }
}

/// Reports on stderr that a server is down, or up again.
fn report_result(member: &Member, failure: Option<Error>, is_first: bool) {
    let server = &member.upstream;
    match failure {
        Some(reason) => report(format_args!("{server} is down and gets no requests: {reason}")),
        None if is_first => (),
        None => report(format_args!("{server} is up again")),
    }
}

/// Sends one request. The caller limits the time.
async fn probe(member: &Member, check: &HealthCheck, resolver: &Resolver) -> io::Result<()> {
    if member.upstream.is_http2 {
        return probe_multiplexed(member, check, resolver).await;
    }
    let address = (&*member.upstream.host, member.upstream.port);
    let (wire, _) =
        dial(resolver, address, member.connector.as_ref(), IoTimeout::after(check.timeout)).await?;
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: phalanx\r\nConnection: close\r\n\r\n",
        check.path, member.authority
    );
    wire.write(request.into_bytes(), IoTimeout::NONE).await?;
    let mut input = Vec::new();
    while input.len() < MAX_HEAD {
        if wire.read(&mut input, IoTimeout::NONE).await? == 0 {
            return Err(Error::other("it closed the connection before the head of its response"));
        }
        while let Some(response) = parse_and_repair(&mut input, false)
            .map_err(|_| Error::other("its response is malformed"))?
        {
            match response.status {
                100..200 => drop(input.drain(..response.head)),
                status => return judge(status, check),
            }
        }
    }
    Err(Error::other(format!("the head of its response exceeds {MAX_HEAD} bytes")))
}

/// Like [`probe`], with HTTP/2.
async fn probe_multiplexed(
    member: &Member,
    check: &HealthCheck,
    resolver: &Resolver,
) -> io::Result<()> {
    let (mut sender, driver) = connect(resolver, member, IoTimeout::after(check.timeout)).await?;
    let scheme = if member.upstream.is_tls { "https" } else { "http" };
    let request = http::Request::get(format!("{scheme}://{}{}", member.authority, check.path))
        .header("user-agent", "phalanx")
        .body(())
        .map_err(Error::other)?;
    let (response, _) = sender.send_request(request, true).map_err(error)?;
    match select(pin!(response), pin!(driver)).await {
        Either::Left(response) => judge(response.map_err(error)?.status().as_u16(), check),
        Either::Right(ended) => {
            ended.map_err(error)?;
            Err(Error::other("it closed the connection before the head of its response"))
        }
    }
}

/// Whether this status is a success.
fn judge(status: u16, check: &HealthCheck) -> io::Result<()> {
    match status {
        200..400 => Ok(()),
        status => Err(Error::other(format!("status {status} of {}", check.path))),
    }
}

/// The results of the checks so far.
#[derive(Default)]
struct Results {
    is_up: Option<bool>,
    /// Whether the current result is that of the first check.
    is_first: bool,
    /// Number of checks in a row with the opposite result.
    others: u32,
}

impl Results {
    /// Adds a result. Returns whether the server is up, if that has changed. The first result takes effect immediately,
    /// because nothing is known about the server before it.
    fn add(&mut self, is_up: bool, check: &HealthCheck) -> Option<bool> {
        let Some(before) = self.is_up else {
            (self.is_up, self.is_first) = (Some(is_up), true);
            return self.is_up;
        };
        if is_up == before {
            self.others = 0;
            return None;
        }
        self.others += 1;
        if self.others < if is_up { check.healthy } else { check.unhealthy } {
            return None;
        }
        *self = Self { is_up: Some(is_up), ..Self::default() };
        self.is_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_results_in_a_row_change_the_state() {
        let check = HealthCheck { healthy: 2, unhealthy: 3, ..HealthCheck::default() };
        for (results, states) in
            [("+--+---", "+.....-"), ("-+-++-+", "-...+.."), ("--+-+++", "-....+.")]
        {
            let mut all = Results::default();
            let found: String = results
                .chars()
                .map(|result| match all.add(result == '+', &check) {
                    Some(true) => '+',
                    Some(false) => '-',
                    None => '.',
                })
                .collect();
            assert_eq!(found, states, "{results}");
        }
    }
}
