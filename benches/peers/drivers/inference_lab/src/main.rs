//! Simulates a job with inference-lab's engine: reads the trace, submits every request, writes the answers.

use inference_lab::config::ModelConfig;
use inference_lab::request::Request;
use inference_lab::simulation::{Engine, Topology};
use serde::Deserialize;
use std::error::Error;
use std::fs;
use std::io::Write;

#[derive(Deserialize)]
struct Job {
    trace: String,
    out: String,
    cost: Option<Cost>,
    deployment: Deployment,
}

#[derive(Deserialize)]
struct Cost {
    step_s: f64,
    token_s: f64,
}

#[derive(Deserialize)]
struct Deployment {
    max_num_batched_tokens: u32,
    max_num_seqs: u32,
    block_tokens: u32,
    blocks: u64,
}

/// Bytes of a token's keys and values: 2 x 32 layers x 8 heads x 128 x 2 bytes.
const KV_BYTES_PER_TOKEN: u64 = 131_072;

/// Seconds that the process has been on a CPU.
fn cpu_s() -> f64 {
    let text = fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let first = text.split_whitespace().next();
    first.and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1e9
}

/// The configuration of a job, as the simulator reads it.
fn config_of(job: &Job) -> String {
    let of = &job.deployment;
    let step_cost = match &job.cost {
        Some(Cost { step_s, token_s }) => format!(
            "step_cost = {{ model = \"linear\", t0 = {step_s:e}, tp = {token_s:e}, td = {token_s:e} }}"
        ),
        None => String::new(),
    };
    format!(
        "model = \"llama-3.1-8b-instruct\"\n\
         [scheduler]\n\
         max_num_batched_tokens = {}\nmax_num_seqs = {}\npolicy = \"fcfs\"\n\
         enable_chunked_prefill = true\nblock_size = {}\nkv_cache_capacity = {}\n\
         [hardware.h100]\ntp = 1\n{step_cost}\n",
        of.max_num_batched_tokens,
        of.max_num_seqs,
        of.block_tokens,
        of.blocks * u64::from(of.block_tokens) * KV_BYTES_PER_TOKEN,
    )
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("the path of a job is missing")?;
    let job: Job = serde_json::from_str(&fs::read_to_string(path)?)?;
    let deployment = ModelConfig::from_toml(&config_of(&job))?.deployment(None)?;
    let topology =
        Topology::aggregated(deployment.cluster(), deployment.model.clone(), deployment.scheduler)?;
    let mut engine = Engine::new(topology);
    let trace = fs::read_to_string(&job.trace)?;
    let mut requests = 0;
    for (row, line) in trace.lines().skip(1).enumerate() {
        let cells: Vec<&str> = line.split(',').collect();
        engine.submit(Request::new(
            row.to_string(),
            0,
            cells[0].parse()?,
            cells[1].parse()?,
            cells[2].trim().parse()?,
        ));
        requests += 1;
    }
    let mut moments = vec![None; requests];
    let mut steps = 0u64;
    let started = cpu_s();
    while engine.next_event_time().is_some() {
        let outcome = engine.step()?;
        steps += u64::from(outcome.iteration.is_some());
        for timing in outcome.completions {
            let row: usize = timing.request_id.parse()?;
            moments[row] = Some((timing.first_token_time, timing.completion_time));
        }
    }
    let replay_s = cpu_s() - started;
    let mut out = std::io::BufWriter::new(fs::File::create(&job.out)?);
    writeln!(out, "first_token,finish")?;
    for moment in moments {
        match moment {
            Some((first, last)) => writeln!(out, "{first},{last}")?,
            None => writeln!(out, ",")?,
        }
    }
    println!("{{\"replay_s\": {replay_s}, \"steps\": {steps}}}");
    Ok(())
}
