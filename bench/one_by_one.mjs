// The load that every peer on Node gets: tasks that each enqueue one job at a time.
import { parseArgs } from "node:util";

export function given() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      tasks: { type: "string" },
      seconds: { type: "string" },
      payload: { type: "string" },
    },
  });
  return {
    databaseUrl: positionals[0],
    tasks: Number(values.tasks),
    seconds: Number(values.seconds),
    payload: values.payload,
  };
}

// Enqueues as fast as the answers come, and prints how many were answered.
export async function drive(enqueue, load) {
  await enqueue();
  let answered = 0;
  const began = performance.now();
  const tookS = () => (performance.now() - began) / 1000;
  const task = async () => {
    while (tookS() < load.seconds) {
      await enqueue();
      answered += 1;
    }
  };
  await Promise.all(Array.from({ length: load.tasks }, task));
  console.log(JSON.stringify({ answered, seconds: tookS() }));
}
