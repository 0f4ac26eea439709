//! Runs a case and compares the responses with its requirements and with the rules for every response.

use std::net::SocketAddr;
use std::time::Duration;

use phalanx_testkit::http::{Client, Response, find};

use crate::conformance::case::{Answer, Case, Check, End, Pieces, get};
use crate::conformance::escape::escape;
use crate::conformance::parts::parts;
use crate::conformance::tree::PROBE;

/// Runs a case. The error contains everything needed to understand it.
pub(crate) fn check_case(address: SocketAddr, case: &Case, limit: Duration) -> Result<(), String> {
    match case.pieces {
        Pieces::EachCut => {
            (1..case.send.len()).try_for_each(|cut| run_case(address, case, limit, Some(cut)))
        }
        _ => run_case(address, case, limit, None),
    }
}

fn run_case(
    address: SocketAddr,
    case: &Case,
    limit: Duration,
    cut: Option<usize>,
) -> Result<(), String> {
    let mut wire = Client::try_connect(address, limit)?;
    let (first, second) = case.send.split_at(cut.unwrap_or(case.send.len()));
    match case.pieces {
        Pieces::Bytes => case.send.iter().for_each(|byte| wire.try_send(&[*byte])),
        _ => wire.try_send(first),
    }
    if cut.is_some() {
        // Let the server run, so that it is likely to see the split.
        std::thread::yield_now();
        wire.try_send(second);
    }
    if case.pieces == Pieces::HalfClosed {
        wire.shut();
    }
    exchange(&mut wire, case).map_err(|fault| {
        let at = cut.map(|cut| format!(", cut after {cut} bytes")).unwrap_or_default();
        format!(
            "{} ({}){at}: {fault}\n  wanted {}\n  sent\n      {}\n  received\n      {}",
            case.name,
            case.section,
            requirements_text(case),
            escape(&case.send),
            escape(wire.received())
        )
    })
}

fn exchange(wire: &mut Client, case: &Case) -> Result<(), String> {
    let mut announced_close = false;
    for (at, expected) in case.requirements.answers.iter().enumerate() {
        let received = wire
            .try_response(expected.headless)
            .map_err(|fault| format!("answer {}: {fault}", at + 1))?;
        announced_close = received.has_connection_close();
        let is_last = at + 1 == case.requirements.answers.len();
        compare(expected, &received)
            .and_then(|()| check_common_rules(expected, &received))
            .and_then(|()| match (is_last, case.requirements.end) {
                (true, End::Closed)
                    if received.status >= 200 && !received.has_connection_close() =>
                {
                    Err("closes without having said so (RFC 9112, 9.6)".to_owned())
                }
                (false, _) | (_, End::Open) if received.has_connection_close() => {
                    Err("says that it closes".to_owned())
                }
                _ => Ok(()),
            })
            .map_err(|fault| format!("answer {} ({}): {fault}", at + 1, received.status))?;
    }
    let end = match (case.requirements.end, announced_close) {
        (End::AsAnnounced, true) => End::Closed,
        (End::AsAnnounced, false) => End::Open,
        (end, _) => end,
    };
    match end {
        End::Closed | End::ClosedUnannounced => wire.try_close(),
        End::Open | End::AsAnnounced => {
            wire.try_send(get("/probe.txt", "Connection: close\r\n").as_bytes());
            let response =
                wire.try_response(false).map_err(|fault| format!("the next request: {fault}"))?;
            if response.status != 200 || response.body != PROBE.as_bytes() {
                return Err(format!("the next request was answered {}", response.status));
            }
            wire.try_close().map_err(|fault| format!("behind the next request: {fault}"))
        }
    }
}

fn compare(expected: &Answer, received: &Response) -> Result<(), String> {
    if !expected.statuses.contains(&received.status) {
        return Err(format!("not one of {:?}", expected.statuses));
    }
    for check in &expected.checks {
        match check {
            Check::Field(name, value) => {
                let found: Vec<_> = received.values(name).collect();
                if found != [value] {
                    return Err(format!("{name} is {found:?} and not {value:?}"));
                }
            }
            Check::Begins(name, start) => {
                if !received.first(name).is_some_and(|value| value.starts_with(start)) {
                    return Err(format!("{name} does not begin with {start:?}"));
                }
            }
            Check::Has(name) if received.first(name).is_none() => {
                return Err(format!("{name} is missing"));
            }
            Check::Lacks(name) if received.first(name).is_some() => {
                return Err(format!("{name} should not be there"));
            }
            Check::Body(body) if *body != received.body => {
                return Err(format!("the body is {}", escape(&received.body)));
            }
            Check::BodyWithout(text) if find(&received.body, text.as_bytes()).is_some() => {
                return Err(format!("the body holds {text:?}"));
            }
            Check::Parts(expected) => {
                let found = parts(received)?;
                if found != *expected {
                    return Err(format!("the parts are {found:?}"));
                }
            }
            Check::Has(_) | Check::Lacks(_) | Check::Body(_) | Check::BodyWithout(_) => (),
        }
    }
    Ok(())
}

/// Checks the rules for every response of an origin server.
fn check_common_rules(expected: &Answer, received: &Response) -> Result<(), String> {
    let Response { status, body, .. } = received;
    let (count, has) =
        (|name| received.values(name).count(), |name| received.first(name).is_some());
    let rules = [
        (count("Content-Length") <= 1, "Content-Length comes twice (RFC 9110, 8.6)"),
        (count("Content-Type") <= 1, "Content-Type comes twice (RFC 9110, 8.3)"),
        (count("Date") <= 1 && count("ETag") <= 1, "Date or ETag comes twice (RFC 9110, 5.3)"),
        (
            !has("Content-Length") || !has("Transfer-Encoding"),
            "a length beside a transfer coding (RFC 9112, 6.2)",
        ),
        (*status < 200 || is_date(received.first("Date")), "no right Date (RFC 9110, 6.6.1)"),
        (
            !(*status < 200 || *status == 204) || !has("Content-Length"),
            "Content-Length where no body can be (RFC 9110, 8.6)",
        ),
        (
            *status < 200
                || [204, 304].contains(status)
                || has("Content-Length")
                || has("Transfer-Encoding"),
            "no Content-Length (RFC 9110, 8.6)",
        ),
        (body.is_empty() || has("Content-Type"), "a body without Content-Type (RFC 9110, 8.3)"),
        (*status != 405 || has("Allow"), "405 without Allow (RFC 9110, 15.5.6)"),
        (*status != 401 || has("WWW-Authenticate"), "401 without a challenge (RFC 9110, 15.5.2)"),
        (
            *status != 416
                || received.first("Content-Range").is_some_and(|v| v.starts_with("bytes */")),
            "416 without the length (RFC 9110, 15.5.17)",
        ),
        (![301, 308].contains(status) || has("Location"), "no Location (RFC 9110, 15.4.2)"),
        (
            !has("Last-Modified") || is_date(received.first("Last-Modified")),
            "no right Last-Modified (RFC 9110, 8.8.2)",
        ),
        (received.first("ETag").is_none_or(is_tag), "an ETag without quotes (RFC 9110, 8.8.3)"),
        (
            expected.headless || *status != 206 || has("Content-Range") != is_multipart(received),
            "206 with both or neither of Content-Range and parts (RFC 9110, 15.3.7)",
        ),
        (
            ![200, 206, 304].contains(status) || !has("Content-Range") || (*status == 206),
            "Content-Range in an answer that is no part (RFC 9110, 14.4)",
        ),
    ];
    match rules.iter().find(|(is_met, _)| !is_met) {
        Some((_, rule)) => Err((*rule).to_owned()),
        None => Ok(()),
    }
}

fn is_multipart(received: &Response) -> bool {
    received.first("Content-Type").is_some_and(|kind| kind.starts_with("multipart/byteranges"))
}

/// Whether the value is an IMF-fixdate (RFC 9110, 5.6.7).
fn is_date(value: Option<&str>) -> bool {
    value.is_some_and(|value| {
        let pattern = "Aaa, 00 Aaa 0000 00:00:00 GMT";
        value.len() == pattern.len()
            && value.bytes().zip(pattern.bytes()).all(|(byte, form)| match form {
                b'0' => byte.is_ascii_digit(),
                b'A' => byte.is_ascii_uppercase(),
                b'a' => byte.is_ascii_lowercase(),
                _ => byte == form,
            })
            && phalanx_http::parse_date(value.as_bytes()).is_some()
    })
}

fn is_tag(value: &str) -> bool {
    let opaque = value.strip_prefix("W/").unwrap_or(value);
    opaque.len() >= 2 && opaque.starts_with('"') && opaque.ends_with('"')
}

fn requirements_text(case: &Case) -> String {
    let answers: Vec<_> = case
        .requirements
        .answers
        .iter()
        .map(|answer| match answer.checks.is_empty() {
            true => format!("{:?}", answer.statuses),
            false => format!("{:?} with {:?}", answer.statuses, answer.checks),
        })
        .collect();
    let end = match case.requirements.end {
        End::Open => "and the connection open",
        End::Closed | End::ClosedUnannounced => "and the connection closed",
        End::AsAnnounced => "and the connection as announced",
    };
    let text = format!("{} {end}", answers.join(", then "));
    text.chars().take(600).collect()
}
