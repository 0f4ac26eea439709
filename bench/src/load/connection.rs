//! A connection's whole life, as one operation.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use phalanx::net::IoTimeout;
use phalanx::shutdown::{Draining, draining};
use phalanx::task::Either;
use phalanx::time::now;
use phalanx::{select, sleep};

use super::answers::Answer;
use super::drive::Drive;
use super::flight::Flight;
use super::talk::Talk;
use super::tally::Failure;
use super::wire::Wire;
use crate::surge;

/// How long to leave a server alone that refuses connections: at first, and at most.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(320));

/// When a request was meant to start, and when this connection took it up.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    intended: u64,
    begun: u64,
}

/// One user of the server, who sends a request when the last was answered (or, with a pipeline, when
/// one of the last few was), over as many TCP connections as it takes.
pub(crate) struct Client {
    drive: Rc<Drive>,
    talk: Talk,
    /// Requests that are not sent yet.
    out: Vec<u8>,
    flight: Flight<Asked>,
    /// Since when the server has been owing an answer.
    since: Duration,
    back_off: Duration,
    /// Of a user: what the page still lacks.
    objects: u32,
    draining: Draining,
}

impl Client {
    /// Belongs to a processor.
    pub(crate) fn new(drive: &Rc<Drive>) -> Self {
        Self {
            drive: drive.clone(),
            talk: Talk::new(drive.plan.http2),
            out: Vec::new(),
            flight: Flight::default(),
            since: Duration::ZERO,
            back_off: BACK_OFF.0,
            objects: 0,
            draining: draining(),
        }
    }

    /// Lives until the run is over.
    pub(crate) async fn live(mut self) {
        let plan = &self.drive.plan;
        let stays = plan.keep_alive && plan.think.is_none();
        if stays { self.stay().await } else { self.come_and_go().await }
    }

    /// Keeps a connection as long as the server does. It is made for no request in particular.
    async fn stay(&mut self) {
        let mut first = true;
        while !self.drive.is_finished() {
            self.begin();
            let connected = self.connect().await;
            if std::mem::take(&mut first) {
                self.drive.gathered.set(self.drive.gathered.get() + 1);
            }
            match connected {
                Ok(mut wire) => {
                    let failure = self.converse(&mut wire).await.err();
                    self.settle(failure);
                }
                Err(_) => {
                    self.drive.fail_to_connect();
                    self.leave_alone().await;
                }
            }
        }
    }

    /// Makes a connection for each request, whose time it counts to; or for each page of a user.
    async fn come_and_go(&mut self) {
        self.drive.gathered.set(self.drive.gathered.get() + 1);
        loop {
            self.pause(surge::thinking).await;
            let Some(start) = self.drive.wait().await else { return };
            self.objects = self.draw(surge::objects).map_or(0, |objects| objects - 1);
            self.begin();
            self.ask(start);
            let failure = match self.connect().await {
                Ok(mut wire) => self.converse(&mut wire).await.err(),
                Err(failure) => Some(failure),
            };
            self.settle(failure);
            if failure == Some(Failure::Connect) {
                self.leave_alone().await;
            }
        }
    }

    async fn leave_alone(&mut self) {
        sleep(self.back_off).await;
        self.back_off = (self.back_off * 2).min(BACK_OFF.1);
    }

    /// Nothing is asked or said on the next connection.
    fn begin(&mut self) {
        self.talk.reset();
        self.flight.reset();
    }

    async fn connect(&mut self) -> Result<Wire, Failure> {
        self.since = now();
        let plan = &self.drive.plan;
        let connected = Wire::connect(plan.address, plan.tls.as_ref(), self.patience()).await;
        let wire = connected.map_err(|_| Failure::Connect)?;
        self.back_off = BACK_OFF.0;
        Ok(wire)
    }

    /// Asks and hears until there is nothing more to ask, or the connection is not to be used again.
    async fn converse(&mut self, wire: &mut Wire) -> Result<(), Failure> {
        self.greet(wire).await?;
        while self.fill().await {
            self.since = now();
            self.drive.stir();
            self.say(wire).await?;
            if !self.hear(wire).await? {
                break;
            }
        }
        Ok(())
    }

    /// Where a connection begins with more than a request: says that, and hears what the server allows.
    async fn greet(&mut self, wire: &mut Wire) -> Result<(), Failure> {
        while self.talk.room().is_none() {
            self.say(wire).await?;
            let patience = self.patience();
            if self.read(wire, patience).await.map_err(|error| broken(&error))? == 0 {
                return Err(Failure::Closed);
            }
            if !matches!(self.talk.next(), Ok(None)) {
                return Err(Failure::Malformed);
            }
        }
        Ok(())
    }

    /// Sends what there is to be said.
    async fn say(&mut self, wire: &mut Wire) -> Result<(), Failure> {
        self.talk.reply(&mut self.out);
        if !self.out.is_empty() {
            let out = std::mem::take(&mut self.out);
            let sent = wire.write(out, self.patience()).await;
            self.drive.stir();
            self.out = sent.map_err(|error| broken(&error))?;
        }
        Ok(())
    }

    /// Of a user: what `of` draws.
    fn draw<T>(&self, of: fn(&mut fastrand::Rng) -> T) -> Option<T> {
        self.drive.plan.think.map(|_| of(&mut self.drive.random.borrow_mut()))
    }

    /// A user's pause, in units of the shortest between two pages. The run's end ends it.
    async fn pause(&mut self, of: fn(&mut fastrand::Rng) -> f64) {
        let Some((think, times)) = self.drive.plan.think.zip(self.draw(of)) else { return };
        let _: Either<(), ()> = select(&mut self.draining, sleep(think.mul_f64(times))).await;
    }

    /// When the next request is to start that this connection is for; none if there is none.
    async fn await_next(&mut self) -> Option<u64> {
        if self.drive.plan.think.is_none() {
            return self.drive.wait().await;
        }
        self.objects = self.objects.checked_sub(1)?;
        self.pause(surge::between).await;
        self.drive.next()
    }

    /// Takes up requests until there are as many as may be under way. False if there are none.
    async fn fill(&mut self) -> bool {
        let room = self.talk.room().unwrap_or(usize::MAX).min(self.drive.plan.depth);
        while self.flight.len() < room {
            let next = match self.flight.is_empty() {
                true => self.await_next().await,
                false => self.drive.next(),
            };
            let Some(start) = next else { break };
            self.ask(start);
        }
        !self.flight.is_empty()
    }

    fn ask(&mut self, intended: u64) {
        let open = self.drive.plan.arrivals.is_some();
        let begun = if open { self.drive.clock() } else { intended };
        self.flight.push(Asked { intended, begun });
        let random = &mut self.drive.random.borrow_mut();
        self.talk.ask(self.drive.plan.requests.draw(random), &mut self.out);
    }

    /// Reads until something is answered. False if the connection is not to be used again.
    async fn hear(&mut self, wire: &mut Wire) -> Result<bool, Failure> {
        loop {
            let mut any = false;
            while let Some(answer) = self.talk.next().map_err(|_| Failure::Malformed)? {
                any = true;
                if !self.complete(answer)? {
                    return Ok(false);
                }
            }
            if any {
                return Ok(true);
            }
            self.say(wire).await?;
            let patience = self.patience();
            let read = self.read(wire, patience).await;
            self.drive.stir();
            match read.map_err(|error| broken(&error))? {
                0 => {
                    let last = self.talk.close().ok_or(Failure::Closed)?;
                    return self.complete(last);
                }
                bytes => self.drive.bytes.set(self.drive.bytes.get() + bytes),
            }
        }
    }

    /// Reads, and leaves out what only its length matters of: at high rates the load's core would
    /// be busy with copying, and measure itself.
    async fn read(&mut self, wire: &mut Wire, patience: IoTimeout) -> io::Result<u64> {
        let ahead = self.talk.ahead();
        let space = self.talk.space();
        if ahead == 0 {
            return Ok(wire.read(space, patience).await? as u64);
        }
        let skipped = wire.skip(ahead, space, patience).await?;
        let behind = space.len() as u64;
        self.talk.skipped(skipped);
        Ok(skipped + behind)
    }

    /// Whether the connection may be used again.
    fn complete(&mut self, answer: Answer) -> Result<bool, Failure> {
        let Asked { intended, begun } =
            self.flight.land(answer.number).ok_or(Failure::Malformed)?;
        self.drive.complete(answer, intended, begun);
        Ok(answer.keep_alive && self.drive.plan.keep_alive)
    }

    /// The connection is gone, and with it what was not answered.
    fn settle(&mut self, failure: Option<Failure>) {
        self.out.clear();
        if let (Some(failure), true) = (failure, self.flight.is_empty()) {
            self.drive.fail(failure, self.drive.clock());
        }
        for asked in self.flight.drain() {
            self.drive.fail(failure.unwrap_or(Failure::Closed), asked.intended);
        }
    }

    /// What is left of the time that an answer may take.
    fn patience(&self) -> IoTimeout {
        IoTimeout::after(self.drive.plan.patience.saturating_sub(now().saturating_sub(self.since)))
    }
}

fn broken(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::TimedOut => Failure::Timeout,
        _ => Failure::Reset,
    }
}
