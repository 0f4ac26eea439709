//! The life of a connection, as one operation.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use phalanx::net::IoTimeout;
use phalanx::shutdown::{Draining, draining};
use phalanx::task::Either;
use phalanx::time::now;
use phalanx::{select, sleep};

use super::drive::Drive;
use super::http::protocol::Protocol;
use super::http::responses::Answer;
use super::http::tls::Tls;
use super::http::wire::Wire;
use super::in_flight::InFlight;
use super::result::counts::Failure;
use super::workload::visits::{VISITORS, Visit, Visits};
use crate::load::workload::surge;

/// Back-off after a refused connection: initial and maximum.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(320));

/// Intended start of a request, and the time at which this connection sent it.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    intended: u64,
    begun: u64,
}

/// One user of the server, who sends a request when the previous one was answered (with a pipeline, when one of
/// the previous ones was), over as many TCP connections as needed.
pub(crate) struct Client {
    drive: Rc<Drive>,
    protocol: Protocol,
    /// Requests that are not sent yet.
    out: Vec<u8>,
    in_flight: InFlight<Asked>,
    /// Start of the wait for the next answer.
    since: Duration,
    back_off: Duration,
    /// With users: objects of the page still to be requested.
    objects: u32,
    draining: Draining,
}

impl Client {
    /// Owned by a processor.
    pub(crate) fn new(drive: &Rc<Drive>) -> Self {
        Self {
            drive: drive.clone(),
            protocol: Protocol::new(drive.plan.http2),
            out: Vec::new(),
            in_flight: InFlight::default(),
            since: Duration::ZERO,
            back_off: BACK_OFF.0,
            objects: 0,
            draining: draining(),
        }
    }

    /// Runs until the end of the run.
    pub(crate) async fn run(mut self) {
        let plan = &self.drive.plan;
        if let Some(visits) = plan.visits.clone() {
            return self.visit_pages(&visits).await;
        }
        let stays = plan.keep_alive && plan.think.is_none();
        if stays { self.keep_alive().await } else { self.reconnect_for_each().await }
    }

    /// Uses a connection for as long as the server keeps it open. Connecting does not count to any request.
    async fn keep_alive(&mut self) {
        let mut first = true;
        while !self.drive.is_finished() {
            self.begin();
            let connected = self.connect().await;
            if std::mem::take(&mut first) {
                self.drive.connected.set(self.drive.connected.get() + 1);
            }
            match connected {
                Ok(mut wire) => {
                    let failure = self.exchange(&mut wire).await.err();
                    self.settle(failure);
                }
                Err(_) => {
                    self.drive.fail_to_connect();
                    self.back_off().await;
                }
            }
        }
    }

    /// Opens a connection for each request, or for each page of a user. The connection setup counts to the first
    /// request.
    async fn reconnect_for_each(&mut self) {
        self.drive.connected.set(self.drive.connected.get() + 1);
        loop {
            self.pause(surge::thinking).await;
            let Some(start) = self.drive.wait().await else { return };
            self.objects = self.draw(surge::objects).map_or(0, |objects| objects - 1);
            self.begin();
            self.ask(start);
            let failure = match self.connect().await {
                Ok(mut wire) => self.exchange(&mut wire).await.err(),
                Err(failure) => Some(failure),
            };
            self.settle(failure);
            if failure == Some(Failure::Connect) {
                self.back_off().await;
            }
        }
    }

    /// Visits pages, each over a new connection. Returning visitors resume the session of an earlier visit.
    async fn visit_pages(&mut self, visits: &Visits) {
        let new = self.drive.plan.tls.clone();
        let returning = new.as_ref().map(Tls::resuming);
        // The earlier visit of the first one who returns.
        let visit = visits.draw(1, &mut self.drive.random.borrow_mut());
        self.begin();
        if returning.is_some()
            && let Ok(mut wire) = self.connect_with(returning.as_ref()).await
        {
            let _ = self.visit(&mut wire, visit).await;
        }
        self.out.clear();
        self.drive.connected.set(self.drive.connected.get() + 1);
        let first = self.drive.random.borrow_mut().usize(..VISITORS);
        for turn in first.. {
            let Some(start) = self.drive.wait().await else { return };
            let visit = visits.draw(turn, &mut self.drive.random.borrow_mut());
            self.begin();
            let tls = if visit.is_first() { &new } else { &returning };
            let visited = match self.connect_with(tls.as_ref()).await {
                Ok(mut wire) => {
                    let visited = self.visit(&mut wire, visit).await;
                    visited.map(|status| (status, wire.is_resumed()))
                }
                Err(failure) => Err(failure),
            };
            self.out.clear();
            match visited {
                Ok((status, is_resumed)) => {
                    let answer = Answer { status, keep_alive: false, number: None };
                    self.drive.complete(answer, start, start);
                    self.drive.handshake(is_resumed, start);
                }
                Err(failure) => self.drive.fail(failure, start),
            }
            if visited == Err(Failure::Connect) {
                self.back_off().await;
            }
        }
    }

    /// Requests a page, then all of its files. Returns 200, or the status of an answer that was not expected.
    async fn visit(&mut self, wire: &mut Wire, visit: &Visit) -> Result<u16, Failure> {
        self.set_up(wire).await?;
        let (page, files) = visit.requests.split_at(1);
        for requests in [page, files] {
            let (mut asked, mut answered) = (0, 0);
            while answered < requests.len() {
                let room = self.protocol.room().unwrap_or_default();
                while asked < requests.len() && asked - answered < room {
                    self.protocol.ask(&requests[asked], &mut self.out);
                    asked += 1;
                }
                if asked == answered {
                    return Err(Failure::Closed);
                }
                self.since = now();
                self.send(wire).await?;
                let before = answered;
                while let Some(answer) = self.protocol.next().map_err(|_| Failure::Malformed)? {
                    answered += 1;
                    if answer.status != visit.status {
                        // A redirect, an error, or a file where 304 is expected. The latter must not count as success.
                        return Ok(if answer.status == 200 { 304 } else { answer.status });
                    }
                }
                if answered == before {
                    let timeout = self.remaining_time();
                    match self.read(wire, timeout).await.map_err(|error| broken(&error))? {
                        0 => return Err(Failure::Closed),
                        bytes => self.drive.bytes.set(self.drive.bytes.get() + bytes),
                    }
                }
            }
        }
        Ok(200)
    }

    async fn back_off(&mut self) {
        sleep(self.back_off).await;
        self.back_off = (self.back_off * 2).min(BACK_OFF.1);
    }

    /// Resets the state for a new connection.
    fn begin(&mut self) {
        self.protocol.reset();
        self.in_flight.reset();
    }

    async fn connect(&mut self) -> Result<Wire, Failure> {
        let drive = self.drive.clone();
        self.connect_with(drive.plan.tls.as_ref()).await
    }

    async fn connect_with(&mut self, tls: Option<&Tls>) -> Result<Wire, Failure> {
        self.since = now();
        let address = self.drive.plan.address;
        let connected = Wire::connect(address, tls, self.remaining_time()).await;
        let wire = connected.map_err(|_| Failure::Connect)?;
        self.back_off = BACK_OFF.0;
        Ok(wire)
    }

    /// Sends and receives until there are no more requests, or the connection cannot be reused.
    async fn exchange(&mut self, wire: &mut Wire) -> Result<(), Failure> {
        self.set_up(wire).await?;
        while self.fill().await {
            self.since = now();
            self.drive.record_progress();
            self.send(wire).await?;
            if !self.receive(wire).await? {
                break;
            }
        }
        Ok(())
    }

    /// Performs the protocol's connection setup, if it has one: sends the preface and receives the server's
    /// settings.
    async fn set_up(&mut self, wire: &mut Wire) -> Result<(), Failure> {
        while self.protocol.room().is_none() {
            self.send(wire).await?;
            let timeout = self.remaining_time();
            if self.read(wire, timeout).await.map_err(|error| broken(&error))? == 0 {
                return Err(Failure::Closed);
            }
            if !matches!(self.protocol.next(), Ok(None)) {
                return Err(Failure::Malformed);
            }
        }
        Ok(())
    }

    /// Sends all pending bytes.
    async fn send(&mut self, wire: &mut Wire) -> Result<(), Failure> {
        self.protocol.reply(&mut self.out);
        if !self.out.is_empty() {
            let out = std::mem::take(&mut self.out);
            let sent = wire.write(out, self.remaining_time()).await;
            self.drive.record_progress();
            self.out = sent.map_err(|error| broken(&error))?;
        }
        Ok(())
    }

    /// With users: draws from the distribution `of`.
    fn draw<T>(&self, of: fn(&mut fastrand::Rng) -> T) -> Option<T> {
        self.drive.plan.think.map(|_| of(&mut self.drive.random.borrow_mut()))
    }

    /// Pauses for a user's think time, in units of the minimum between two pages, or until the run ends.
    async fn pause(&mut self, of: fn(&mut fastrand::Rng) -> f64) {
        let Some((think, times)) = self.drive.plan.think.zip(self.draw(of)) else { return };
        let _: Either<(), ()> = select(&mut self.draining, sleep(think.mul_f64(times))).await;
    }

    /// Intended start of the next request on this connection; `None` at the end of the run.
    async fn await_next(&mut self) -> Option<u64> {
        if self.drive.plan.think.is_none() {
            return self.drive.wait().await;
        }
        self.objects = self.objects.checked_sub(1)?;
        self.pause(surge::between).await;
        self.drive.next()
    }

    /// Queues requests up to the pipeline depth. Returns false if there are none.
    async fn fill(&mut self) -> bool {
        let room = self.protocol.room().unwrap_or(usize::MAX).min(self.drive.plan.depth);
        while self.in_flight.len() < room {
            let next = match self.in_flight.is_empty() {
                true => self.await_next().await,
                false => self.drive.next(),
            };
            let Some(start) = next else { break };
            self.ask(start);
        }
        !self.in_flight.is_empty()
    }

    fn ask(&mut self, intended: u64) {
        let open = self.drive.plan.arrivals.is_some();
        let begun = if open { self.drive.clock() } else { intended };
        self.in_flight.push(Asked { intended, begun });
        let random = &mut self.drive.random.borrow_mut();
        self.protocol.ask(self.drive.plan.requests.draw(random), &mut self.out);
    }

    /// Reads until a request is answered. Returns false if the connection cannot be reused.
    async fn receive(&mut self, wire: &mut Wire) -> Result<bool, Failure> {
        loop {
            let mut any = false;
            while let Some(answer) = self.protocol.next().map_err(|_| Failure::Malformed)? {
                any = true;
                if !self.complete(answer)? {
                    return Ok(false);
                }
            }
            if any {
                return Ok(true);
            }
            self.send(wire).await?;
            let timeout = self.remaining_time();
            let read = self.read(wire, timeout).await;
            self.drive.record_progress();
            match read.map_err(|error| broken(&error))? {
                0 => {
                    let last = self.protocol.close().ok_or(Failure::Closed)?;
                    return self.complete(last);
                }
                bytes => self.drive.bytes.set(self.drive.bytes.get() + bytes),
            }
        }
    }

    /// Reads, discarding bytes of which only the count matters. Copying them would saturate the load's core at
    /// high rates.
    async fn read(&mut self, wire: &mut Wire, timeout: IoTimeout) -> io::Result<u64> {
        let ahead = self.protocol.ahead();
        let space = self.protocol.space();
        if ahead == 0 {
            return Ok(wire.read(space, timeout).await? as u64);
        }
        let skipped = wire.skip(ahead, space, timeout).await?;
        let behind = space.len() as u64;
        self.protocol.skipped(skipped);
        Ok(skipped + behind)
    }

    /// Counts an answer. Returns whether the connection can be reused.
    fn complete(&mut self, answer: Answer) -> Result<bool, Failure> {
        let Asked { intended, begun } =
            self.in_flight.complete(answer.number).ok_or(Failure::Malformed)?;
        self.drive.complete(answer, intended, begun);
        Ok(answer.keep_alive && self.drive.plan.keep_alive)
    }

    /// Counts the unanswered requests of a lost connection.
    fn settle(&mut self, failure: Option<Failure>) {
        self.out.clear();
        if let (Some(failure), true) = (failure, self.in_flight.is_empty()) {
            self.drive.fail(failure, self.drive.clock());
        }
        for asked in self.in_flight.drain() {
            self.drive.fail(failure.unwrap_or(Failure::Closed), asked.intended);
        }
    }

    /// Remaining time for an answer.
    fn remaining_time(&self) -> IoTimeout {
        IoTimeout::after(self.drive.plan.timeout.saturating_sub(now().saturating_sub(self.since)))
    }
}

fn broken(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::TimedOut => Failure::Timeout,
        _ => Failure::Reset,
    }
}
