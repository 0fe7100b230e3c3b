-- Send one and the same request as fast as answers come, whatever they are.
-- Arguments: path, file with the body, file with the token (or an empty name), what the Connection header says.

local function read(name)
  local file = assert(io.open(name, "rb"))
  local text = file:read("*a")
  file:close()
  return text
end

local text

function init(args)
  local body = read(args[2])
  local lines = {
    "POST " .. args[1] .. " HTTP/1.1",
    "Host: " .. wrk.host .. ":" .. wrk.port,
    "Content-Type: application/json",
    "Content-Length: " .. #body,
    "Connection: " .. args[4],
  }
  if args[3] ~= "" then
    lines[#lines + 1] = "Authorization: Bearer " .. read(args[3])
  end
  text = table.concat(lines, "\r\n") .. "\r\n\r\n" .. body
end

function request()
  return text
end

function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    '\n{"requests":%d,"microseconds":%d,"not_200":%d,"broken":%d,"p50":%.1f,"p99":%.1f}\n',
    summary.requests, summary.duration, errors.status,
    errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50), latency:percentile(99)))
end
