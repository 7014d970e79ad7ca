// pg-boss: one INSERT a job.
//
// Setting: a pool of one connection a task, without supervision and schedules, which only workers
// need (options max, supervise and schedule, in the package's own description of
// ConstructorOptions).
import PgBoss from "pg-boss";
import { drive, given } from "./one_by_one.mjs";

const load = given();
const boss = new PgBoss({
  connectionString: load.databaseUrl,
  max: load.tasks,
  supervise: false,
  schedule: false,
});
await boss.start();
await boss.createQueue("bench");
await drive(() => boss.send("bench", { payload: load.payload }), load);
await boss.stop({ graceful: false });
