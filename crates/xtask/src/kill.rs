//! Real SIGKILLs of `phalanx up` while Jobs are submitted: no acknowledged write is lost, and every Job is counted exactly.

mod ledger; // what was acknowledged, and what must be there
mod submit; // one client
mod verify; // what is there

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use api::Random;
use futures::future::join_all;
use kube::ResourceExt;

use crate::up::{Plan, Scratch, Up};
use ledger::Ledger;
use submit::Submitter;
use verify::Held;

/// How long the last Jobs may stand still once nothing kills the server any more.
const STANDSTILL_MAX: Duration = Duration::from_secs(60);
/// How long after a kill a client may still wait for an answer: every connection is closed by then.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// The switch that acknowledges writes before they are on disk: the loss that this check must see.
const ACKNOWLEDGE_EARLY: (&str, &str) = ("PHALANX_TEST_ACK_EARLY", "1");

/// Options of `cargo xtask kill`.
#[derive(clap::Args)]
pub struct Args {
    /// How often the server is killed
    #[arg(long, default_value_t = 50)]
    rounds: u32,
    /// Jobs under way at once: in each round the clients submit as many as are missing
    #[arg(long, default_value_t = 200)]
    jobs: usize,
    /// Clients that submit at once
    #[arg(long, default_value_t = 8)]
    clients: usize,
    /// The longest life of a server, in milliseconds
    #[arg(long, default_value_t = 2000)]
    life_ms_max: u64,
    /// The program to kill
    #[arg(long)]
    phalanx: PathBuf,
    /// Draws when it is killed and what the clients do; printed, so that a run can be repeated
    #[arg(long)]
    seed: Option<u64>,
    /// Let the server acknowledge writes before they are on disk; the run succeeds when it sees the loss
    #[arg(long)]
    planted: bool,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let seed = args.seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!("kill: seed {seed}, {} rounds of {} Jobs by {} clients", args.rounds, args.jobs, args.clients);
    let scratch = Scratch::new("kill")?;
    let mut plan = Plan::new(&args.phalanx, scratch.path())?;
    plan.options = ["--nodes", "64"].map(String::from).to_vec();
    if args.planted {
        plan.environment.push(ACKNOWLEDGE_EARLY);
    }
    let runtime = tokio::runtime::Runtime::new()?;
    let result = runtime.block_on(Test::new(args, seed, plan).all_rounds());
    match (result, args.planted) {
        (Ok(()), false) => Ok(()),
        (Ok(()), true) => bail!("kill: writes were acknowledged early, and no loss was seen"),
        (Err(error), true) if error.is::<Lost>() => {
            println!("kill: the planted loss is seen: {error}");
            Ok(())
        }
        (Err(error), _) => {
            eprintln!("the data stays in {}", scratch.keep().display());
            Err(error)
        }
    }
}

/// What must never be: the promise of the store is broken.
#[derive(Debug)]
struct Lost(String);

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Lost {}

struct Test<'a> {
    args: &'a Args,
    plan: Plan,
    random: Random,
    submitters: Vec<Submitter>,
    start: Instant,
}

impl Test<'_> {
    fn new(args: &Args, seed: u64, plan: Plan) -> Test<'_> {
        let submitter = |id| {
            let random = Random::seeded(seed.wrapping_mul(1000) + id as u64);
            Submitter { id, ledger: Ledger::default(), random, begun: 0 }
        };
        let submitters = (0..args.clients).map(submitter).collect();
        Test { args, plan, random: Random::seeded(seed), submitters, start: Instant::now() }
    }

    async fn all_rounds(mut self) -> anyhow::Result<()> {
        for round in 1..=self.args.rounds {
            let up = self.restart(round)?;
            self.verify(&up).await?;
            self.work_until_killed(up).await?;
            let revision = self.plan.check().with_context(|| format!("round {round}"))?;
            let acknowledged = self.acknowledged();
            if revision < acknowledged {
                bail!(Lost(format!("round {round}: the store ends at {revision}, acknowledged was {acknowledged}")));
            }
            let (created, deleted) = self.totals();
            let seconds = self.start.elapsed().as_secs_f64();
            println!(
                "round {round:>3}: {seconds:>6.1} s, {created:>6} created, {deleted:>6} deleted, revision {revision}"
            );
        }
        let up = Up::start(&self.plan, "127.0.0.1:0")?;
        self.settle(&up).await?;
        up.stop()?;
        self.plan.check()?;
        let (created, deleted) = self.totals();
        println!(
            "kill: {} kills, {created} Jobs created, {deleted} deleted: 0 acknowledged writes lost, every count exact",
            self.args.rounds
        );
        Ok(())
    }

    /// Starts the server; now and then it is killed once more while it starts.
    fn restart(&mut self, round: u32) -> anyhow::Result<Up> {
        if round > 1 && self.random.below(4) == 0 {
            let up = Up::spawn(&self.plan, "127.0.0.1:0")?;
            std::thread::sleep(Duration::from_millis(self.random.below(200)));
            up.kill()?;
        }
        Up::start(&self.plan, "127.0.0.1:0").with_context(|| format!("round {round}"))
    }

    /// All clients work until the server dies under them.
    async fn work_until_killed(&mut self, up: Up) -> anyhow::Result<()> {
        let life = Duration::from_millis(self.random.below(self.args.life_ms_max));
        let share = self.args.jobs.div_ceil(self.args.clients.max(1));
        let mut clients = Vec::new();
        for _ in &self.submitters {
            clients.push(up.client().await?);
        }
        let work = self.submitters.iter_mut().zip(&clients).map(|(submitter, client)| {
            // A server that is killed so often falls behind; a few new Jobs come in every round all the same.
            let budget = share.saturating_sub(submitter.ledger.unfinished()).max(share.div_ceil(8));
            submitter.work(client, budget)
        });
        let kill = async {
            tokio::time::sleep(life).await;
            up.kill()
        };
        let (results, killed) = tokio::join!(tokio::time::timeout(life + ANSWER_MAX, join_all(work)), kill);
        killed?;
        let waits =
            || format!("a client still waits for an answer {} s after the server was killed", ANSWER_MAX.as_secs());
        results.with_context(waits)?.into_iter().collect()
    }

    /// Every book agrees with what is there, and what is complete is counted exactly.
    async fn verify(&mut self, up: &Up) -> anyhow::Result<usize> {
        let held = Held::read(&up.client().await?).await?;
        let acknowledged = self.acknowledged();
        let mut losses = Vec::new();
        if held.revision < acknowledged {
            losses.push(format!("the store is at {}, acknowledged was {acknowledged}", held.revision));
        }
        let found = held.found();
        for submitter in &mut self.submitters {
            losses.extend(submitter.ledger.settle(&found));
        }
        let mut waiting = 0;
        for job in &held.jobs {
            let name = job.name_any();
            let owner = self.submitters.iter_mut().find(|submitter| submitter.ledger.knows(&name));
            match (owner, held.is_complete(job)) {
                (None, _) => losses.push(format!("job {name}: nobody created it")),
                (_, Err(text)) => losses.push(text),
                (Some(owner), Ok(true)) => owner.ledger.finished(&name),
                (Some(_), Ok(false)) => waiting += 1,
            }
        }
        if !losses.is_empty() {
            bail!(Lost(format!("{} broken promises:\n{}", losses.len(), losses.join("\n"))));
        }
        Ok(waiting)
    }

    /// Nothing is killed any more: every Job must complete.
    async fn settle(&mut self, up: &Up) -> anyhow::Result<()> {
        let (mut least, mut since) = (usize::MAX, Instant::now());
        loop {
            let waiting = self.verify(up).await.context("after the last kill")?;
            if waiting == 0 {
                return Ok(());
            }
            if waiting < least {
                (least, since) = (waiting, Instant::now());
            }
            ensure!(
                since.elapsed() < STANDSTILL_MAX,
                "{waiting} Jobs do not complete, {} s after the last that did",
                since.elapsed().as_secs()
            );
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    }

    fn acknowledged(&self) -> u64 {
        self.submitters.iter().map(|submitter| submitter.ledger.revision).max().unwrap_or_default()
    }

    fn totals(&self) -> (usize, usize) {
        let totals = self.submitters.iter().map(|submitter| submitter.ledger.totals());
        totals.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
    }
}
