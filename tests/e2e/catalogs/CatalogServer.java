// Serves Iceberg's own REST catalog fixture on loopback, as a catalog that knows its callers: each call needs a token
// of the authority, and the authority says what the caller may do. Reads a JSON file; listens until it is ended.

package org.apache.iceberg.rest;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import jakarta.servlet.DispatcherType;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpFilter;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.File;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.EnumSet;
import java.util.Map;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.eclipse.jetty.compression.gzip.GzipCompression;
import org.eclipse.jetty.compression.server.CompressionHandler;
import org.eclipse.jetty.ee10.servlet.FilterHolder;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;

public class CatalogServer {
  private static final ObjectMapper JSON = new ObjectMapper();

  public static void main(String[] arguments) throws Exception {
    JsonNode asked = JSON.readTree(new File(arguments[0]));
    Map<String, String> properties = JSON.convertValue(
        asked.get("properties"), JSON.getTypeFactory().constructMapType(Map.class, String.class, String.class));
    JdbcCatalog catalog = new JdbcCatalog();
    catalog.initialize("fixture", properties);

    RESTCatalogServer.CatalogContext fixture = new RESTCatalogServer.CatalogContext(catalog, properties);
    ServletContextHandler context = new ServletContextHandler();
    context.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTServerCatalogAdapter(fixture))), "/*");
    Door door = new Door(URI.create(asked.get("authority").asText()));
    context.addFilter(new FilterHolder(door), "/*", EnumSet.of(DispatcherType.REQUEST));
    CompressionHandler compression = new CompressionHandler();
    compression.putCompression(new GzipCompression());
    context.insertHandler(compression);

    Server server = new Server();
    ServerConnector connector = new ServerConnector(server);
    connector.setHost("127.0.0.1");
    connector.setPort(asked.get("port").asInt());
    server.addConnector(connector);
    server.setHandler(context);
    server.start();
    server.join();
  }

  /** Lets in whom the authority lets in; the token endpoint is the authority's own. */
  private static class Door extends HttpFilter {
    private final HttpClient client = HttpClient.newHttpClient();
    private final URI authority;

    Door(URI authority) {
      this.authority = authority;
    }

    @Override
    protected void doFilter(HttpServletRequest request, HttpServletResponse response, FilterChain chain)
        throws IOException, ServletException {
      if (request.getRequestURI().equals("/v1/oauth/tokens")) {
        HttpRequest.BodyPublisher body = HttpRequest.BodyPublishers.ofByteArray(request.getInputStream().readAllBytes());
        answer(response, send(request, "/token", body));
        return;
      }
      HttpResponse<byte[]> checked = send(request, "/check", HttpRequest.BodyPublishers.noBody());
      if (checked.statusCode() == 200) {
        chain.doFilter(request, response);
      } else {
        answer(response, checked);
      }
    }

    private HttpResponse<byte[]> send(HttpServletRequest request, String path, HttpRequest.BodyPublisher body)
        throws IOException {
      HttpRequest.Builder asked = HttpRequest.newBuilder(authority.resolve(path)).POST(body);
      asked.header("X-Call", request.getMethod() + " " + request.getRequestURI());
      for (String name : new String[] {"Authorization", "Content-Type"}) {
        if (request.getHeader(name) != null) {
          asked.header(name, request.getHeader(name));
        }
      }
      try {
        return client.send(asked.build(), HttpResponse.BodyHandlers.ofByteArray());
      } catch (InterruptedException interrupted) {
        throw new IOException(interrupted);
      }
    }

    private static void answer(HttpServletResponse response, HttpResponse<byte[]> answer) throws IOException {
      response.setStatus(answer.statusCode());
      response.setContentType("application/json");
      response.getOutputStream().write(answer.body());
    }
  }
}
