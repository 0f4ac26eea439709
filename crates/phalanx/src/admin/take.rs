//! Taking a snapshot of the running program.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use phalanx_core::{
    ByteTable, Control, DurationStats, Phase, ProcessorView, ShedView, StageView, bucket_end_ns,
    yield_now,
};

use super::Source;
use crate::metrics::snapshot::{
    ArcSnapshot, ColumnSnapshot, CounterSnapshot, GaugeSnapshot, HistogramSnapshot, Name,
    ProcessorSnapshot, Snapshot, StageSnapshot, VERSION,
};
use crate::metrics::{BytesSnapshot, ObjectBytesSnapshot, OperationBytesSnapshot};

fn mean(total: u64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { total as f64 / count as f64 }
}

fn column(column: DurationStats, per: u64) -> ColumnSnapshot {
    ColumnSnapshot {
        count: column.count,
        total_ns: column.total_ns,
        mean_ns: mean(column.total_ns, per),
        max_ns: column.max_ns,
    }
}

fn stage(name: &'static str, view: &StageView, stalled: u64) -> StageSnapshot {
    StageSnapshot {
        stage: name.into(),
        queue_length: view.queue_length,
        queue_length_mean: mean(view.queue_length_sum, view.cohorts),
        queue_length_max: view.queue_length_max,
        started: column(view.started, view.started.count),
        resumed: column(view.resumed, view.resumed.count),
        // `resumed` also counts later replies of a cohort operation, `started` direct calls. Neither has a run time.
        completed: column(view.completed, view.runs.count()),
        waits: view.waits.into(),
        runs: view.runs.into(),
        direct: view.direct,
        suspended: view.suspended,
        suspended_now: view.suspended_now(),
        panicked: view.panicked,
        cancelled: view.cancelled,
        rejected: view.rejected,
        stalled,
        preemptions: view.preemptions,
        hold_skips: view.hold_skips,
        throttled_turns: view.throttled_turns,
        state_rebuilds: view.state_rebuilds,
        shed: shed(view),
        cohorts: view.cohorts,
        cohort_mean: mean(view.waits.count(), view.cohorts),
        cohort_max: view.cohort_max,
        cohort_sizes: view.cohort_sizes,
    }
}

fn shed(view: &StageView) -> BTreeMap<Name, u64> {
    let ShedView { deadline, admission, full } = view.shed;
    [("deadline", deadline), ("admission", admission), ("full", full)]
        .map(|(reason, count)| (reason.into(), count))
        .into()
}

fn processor(source: &Source, names: &[&'static str], index: usize) -> ProcessorSnapshot {
    let view = source.control.processor(index);
    ProcessorSnapshot {
        processor: index,
        turns: view.turns,
        parks: view.parks,
        parked_ns: view.parked_ns,
        busy_ns: view.busy_ns,
        wakes_sent: view.wakes_sent,
        system_calls: source.system_calls[index].load(Ordering::Relaxed),
        operations: view.operations,
        memory_bytes: view.memory_bytes,
        pooled_bytes: view.pooled_bytes,
        pooled_objects: view.pooled_objects,
        overflow_bytes: view.overflow_bytes,
        take_overs: view.take_overs,
        cohort_tuner: view.cohort_tuner.into(),
        stages: names
            .iter()
            .zip(&view.stages)
            .enumerate()
            .map(|(number, (name, view))| stage(name, view, source.stalls.of(index, number)))
            .collect(),
        arcs: arcs(names, &view),
    }
}

impl Snapshot {
    /// Takes a snapshot. Yields between processors, because there may be a thousand.
    pub(super) async fn take(source: &Source) -> Self {
        let names: Vec<_> = source.control.stages().collect();
        let mut snapshot = Self {
            version: VERSION,
            run: source.run,
            uptime_ns: source.epoch.elapsed().as_nanos() as u64,
            driver: source.driver.to_string(),
            phase: match source.control.phase() {
                Phase::Running => "running".into(),
                Phase::Draining => "draining".into(),
                Phase::Ending => "ending".into(),
            },
            stages: names.iter().map(|name| Name::from(*name)).collect(),
            time_buckets_ns: (0..).map_while(bucket_end_ns).collect(),
            counters: source.metrics.counters().iter().map(CounterSnapshot::from).collect(),
            gauges: source.metrics.gauges().iter().map(GaugeSnapshot::from).collect(),
            times: source.metrics.times().iter().map(HistogramSnapshot::from).collect(),
            cache_bytes: source.control.cache_bytes() as u64,
            bytes: operation_sizes(&source.control, &names),
            placement: source.automatic.as_ref().map(|automatic| automatic.snapshot()),
            processors: Vec::with_capacity(source.control.processors()),
        };
        for index in 0..source.control.processors() {
            snapshot.processors.push(processor(source, &names, index));
            yield_now().await;
        }
        snapshot
    }

    /// Renders JSON. Yields between processors.
    pub(super) async fn into_json(mut self) -> Vec<u8> {
        let processors = std::mem::take(&mut self.processors);
        let mut json = serde_json::to_vec(&self).expect("plain figures");
        assert!(json.ends_with(b"[]}"), "the processors come last");
        json.truncate(json.len() - 2);
        for (index, processor) in processors.iter().enumerate() {
            if index > 0 {
                json.push(b',');
            }
            serde_json::to_writer(&mut json, processor).expect("plain figures");
            yield_now().await;
        }
        json.extend(b"]}");
        json
    }
}

fn arcs(names: &[&'static str], view: &ProcessorView) -> Vec<ArcSnapshot> {
    let name = |stage: usize| names.get(stage).map(|name| Name::from(*name));
    let rows = view.arcs.iter().enumerate();
    let here = rows.flat_map(|(from, row)| {
        let cells = row.iter().zip(names).filter(|(count, _)| **count > 0);
        cells.map(move |(count, to)| ArcSnapshot {
            from: name(from),
            from_processor: None,
            to: Name::from(*to),
            count: *count,
        })
    });
    let crossed = view.crossings.iter().map(|crossing| ArcSnapshot {
        from: crossing.from.and_then(name),
        from_processor: Some(crossing.processor),
        to: Name::from(names[crossing.to]),
        count: crossing.count,
    });
    here.chain(crossed).collect()
}

fn operation_sizes(control: &Control, names: &[&'static str]) -> BytesSnapshot {
    let ByteTable { operations, objects, stacks, replicas, undeclared, .. } = control.bytes();
    let operation = |each: &phalanx_core::OperationBytes| OperationBytesSnapshot {
        stage: names[each.stage].into(),
        operation: each.operation.into(),
        closure: each.closure(),
        invocation: each.invocation,
        future: each.future,
        result: each.result,
        slot: each.slot,
    };
    let object = |each: &phalanx_core::ObjectBytes| ObjectBytesSnapshot {
        stage: names[each.stage].into(),
        name: each.name.into(),
        bytes: each.bytes,
    };
    BytesSnapshot {
        operations: operations.iter().map(operation).collect(),
        objects: objects.iter().map(object).collect(),
        stacks: stacks.iter().map(object).collect(),
        replicas: replicas.iter().map(object).collect(),
        undeclared: undeclared.iter().map(object).collect(),
    }
}
