//! Real SIGKILLs of `phalanx up` while Jobs are submitted: no acknowledged write is lost, and every Job is counted exactly.

mod ledger; // acknowledged writes, and what must be stored
mod submitter; // one client
mod verify; // the state after a crash

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use api::Random;
use futures::future::join_all;
use kube::ResourceExt;
use supervisor::{ScratchDir, UpConfig, UpProcess};

use ledger::ClientLedger;
use submitter::Submitter;
use verify::ServerSnapshot;

/// How long the last Jobs may make no progress after the last kill.
const MAX_STANDSTILL: Duration = Duration::from_secs(60);
/// How long after a kill a client may still wait for a response: every connection is closed by then.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
/// The switch that acknowledges writes before they are on disk: a loss that this check must detect.
const EARLY_ACK_ENV: (&str, &str) = ("PHALANX_TEST_ACK_EARLY", "1");

/// Options of `cargo xtask kill`.
#[derive(clap::Args)]
pub struct Args {
    /// How often the server is killed
    #[arg(long, default_value_t = 50)]
    rounds: u32,
    /// Concurrent Jobs: in each round the clients submit as many as are missing
    #[arg(long, default_value_t = 200)]
    jobs: usize,
    /// Concurrent clients
    #[arg(long, default_value_t = 8)]
    clients: usize,
    /// The longest life of a server, in milliseconds
    #[arg(long, default_value_t = 2000)]
    max_life_ms: u64,
    /// The program to kill
    #[arg(long)]
    phalanx: PathBuf,
    /// The seed of kills and clients; printed, so that a run can be repeated
    #[arg(long)]
    seed: Option<u64>,
    /// Let the server acknowledge writes before they are on disk; the run succeeds if it detects the loss
    #[arg(long)]
    planted: bool,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let seed = args.seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!("kill: seed {seed}, {} rounds of {} Jobs by {} clients", args.rounds, args.jobs, args.clients);
    let scratch = ScratchDir::new("kill")?;
    let mut plan = UpConfig::new(&args.phalanx, scratch.path())?;
    plan.options = ["--nodes", "64"].map(String::from).to_vec();
    if args.planted {
        plan.environment.push(EARLY_ACK_ENV);
    }
    let runtime = tokio::runtime::Runtime::new()?;
    let result = runtime.block_on(CrashTest::new(args, seed, plan).run_rounds());
    match (result, args.planted) {
        (Ok(()), false) => Ok(()),
        (Ok(()), true) => bail!("kill: writes were acknowledged early, and no loss was detected"),
        (Err(error), true) if error.is::<LostWrites>() => {
            println!("kill: the planted loss is detected: {error}");
            Ok(())
        }
        (Err(error), _) => {
            eprintln!("the data stays in {}", scratch.keep().display());
            Err(error)
        }
    }
}

/// A broken promise of the store.
#[derive(Debug)]
struct LostWrites(String);

impl std::fmt::Display for LostWrites {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LostWrites {}

struct CrashTest<'a> {
    args: &'a Args,
    plan: UpConfig,
    random: Random,
    submitters: Vec<Submitter>,
    start: Instant,
}

impl CrashTest<'_> {
    fn new(args: &Args, seed: u64, plan: UpConfig) -> CrashTest<'_> {
        let submitter = |id| {
            let random = Random::seeded(seed.wrapping_mul(1000) + id as u64);
            Submitter { id, ledger: ClientLedger::default(), random, jobs_started: 0 }
        };
        let submitters = (0..args.clients).map(submitter).collect();
        CrashTest { args, plan, random: Random::seeded(seed), submitters, start: Instant::now() }
    }

    async fn run_rounds(mut self) -> anyhow::Result<()> {
        for round in 1..=self.args.rounds {
            let up = self.restart(round)?;
            self.verify(&up).await?;
            self.work_until_killed(up).await?;
            let revision = self.plan.store_check().with_context(|| format!("round {round}"))?;
            let acknowledged = self.acknowledged();
            if revision < acknowledged {
                bail!(LostWrites(format!(
                    "round {round}: the store ends at {revision}, acknowledged was {acknowledged}"
                )));
            }
            let (created, deleted) = self.totals();
            let seconds = self.start.elapsed().as_secs_f64();
            println!(
                "round {round:>3}: {seconds:>6.1} s, {created:>6} created, {deleted:>6} deleted, revision {revision}"
            );
        }
        let up = UpProcess::start(&self.plan, "127.0.0.1:0")?;
        self.wait_for_completion(&up).await?;
        up.stop()?;
        self.plan.store_check()?;
        let (created, deleted) = self.totals();
        println!(
            "kill: {} kills, {created} Jobs created, {deleted} deleted: 0 acknowledged writes lost, every count exact",
            self.args.rounds
        );
        Ok(())
    }

    /// Starts the server; sometimes it is killed once more during the start.
    fn restart(&mut self, round: u32) -> anyhow::Result<UpProcess> {
        if round > 1 && self.random.below(4) == 0 {
            let up = UpProcess::spawn(&self.plan, "127.0.0.1:0")?;
            std::thread::sleep(Duration::from_millis(self.random.below(200)));
            up.kill()?;
        }
        UpProcess::start(&self.plan, "127.0.0.1:0").with_context(|| format!("round {round}"))
    }

    /// All clients work until the server is killed.
    async fn work_until_killed(&mut self, up: UpProcess) -> anyhow::Result<()> {
        let life = Duration::from_millis(self.random.below(self.args.max_life_ms));
        let share = self.args.jobs.div_ceil(self.args.clients.max(1));
        let mut clients = Vec::new();
        for _ in &self.submitters {
            clients.push(up.client().await?);
        }
        let work = self.submitters.iter_mut().zip(&clients).map(|(submitter, client)| {
            // A server that is killed this often falls behind; a few new Jobs are still submitted in every round.
            let budget = share.saturating_sub(submitter.ledger.unfinished()).max(share.div_ceil(8));
            submitter.submit_until_down(client, budget)
        });
        let kill = async {
            tokio::time::sleep(life).await;
            up.kill()
        };
        let (results, killed) = tokio::join!(tokio::time::timeout(life + RESPONSE_TIMEOUT, join_all(work)), kill);
        killed?;
        let waiting_client = || {
            format!("a client still waits for a response {} s after the server was killed", RESPONSE_TIMEOUT.as_secs())
        };
        results.with_context(waiting_client)?.into_iter().collect()
    }

    /// Every ledger matches the server, and complete Jobs are counted exactly.
    async fn verify(&mut self, up: &UpProcess) -> anyhow::Result<usize> {
        let snapshot = ServerSnapshot::read(&up.client().await?).await?;
        let acknowledged = self.acknowledged();
        let mut losses = Vec::new();
        if snapshot.revision < acknowledged {
            losses.push(format!("the store is at {}, acknowledged was {acknowledged}", snapshot.revision));
        }
        let found = snapshot.stored_jobs();
        for submitter in &mut self.submitters {
            losses.extend(submitter.ledger.reconcile(&found));
        }
        let mut waiting = 0;
        for job in &snapshot.jobs {
            let name = job.name_any();
            let owner = self.submitters.iter_mut().find(|submitter| submitter.ledger.contains(&name));
            match (owner, snapshot.is_complete(job)) {
                (None, _) => losses.push(format!("job {name}: it was never created")),
                (_, Err(text)) => losses.push(text),
                (Some(owner), Ok(true)) => owner.ledger.mark_finished(&name),
                (Some(_), Ok(false)) => waiting += 1,
            }
        }
        if !losses.is_empty() {
            bail!(LostWrites(format!("{} broken promises:\n{}", losses.len(), losses.join("\n"))));
        }
        Ok(waiting)
    }

    /// After the last kill every Job must complete.
    async fn wait_for_completion(&mut self, up: &UpProcess) -> anyhow::Result<()> {
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
                since.elapsed() < MAX_STANDSTILL,
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
